//! `tls` of an upstream: the authorities to trust, and the gateway's own certificate.

use crate::yaml::{Place, Problem, Spanned};
use rustls::pki_types::ServerName;
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_net::tls::{Trust, UpstreamTls};

use crate::check::Check;
use crate::pem::{self, usable};
use crate::value::net::no_host;
use crate::value::word::FilePath;
use crate::value::{Fault, Scalar, Value};

/// TLS to https:// servers, without a fallback to plain HTTP.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "UpstreamTls")]
pub(crate) struct WrittenUpstreamTls {
    /// A file with the certificates of the only authorities that are trusted. Default: the system's.
    pub(crate) ca: Option<Scalar<FilePath>>,
    /// A file with the gateway's certificate. Default: none.
    pub(crate) cert: Option<Scalar<FilePath>>,
    /// A file with the key of `cert`.
    pub(crate) key: Option<Scalar<FilePath>>,
    /// The name that the servers' certificate must have. Default: each server's host.
    pub(crate) server_name: Option<Scalar<CertificateName>>,
    /// Whether the servers' certificates are verified. With false, any certificate is trusted. Default: true.
    pub(crate) verify: Option<Scalar<bool>>,
}

/// The name that a server's certificate must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CertificateName(pub(crate) ServerName<'static>);

impl Value for CertificateName {
    const NAME: &'static str = "CertificateName";
    const WHAT: &'static str = "the name of a server";
    const ALLOWED: &'static str = "a host such as api.internal, or an address, without a port";

    fn read(text: &str) -> Result<Self, Fault> {
        let name = ServerName::try_from(text.to_owned());
        name.map(Self).map_err(|_| no_host(text))
    }
}

/// The note in the error for a missing `ca` on a system without certificate authorities.
pub(crate) const NO_AUTHORITIES: &str = "a file with those of a server is named under `upstreams`: `tls: { ca: … }` beside its `servers`";

pub(crate) fn upstream_tls(
    check: &mut Check<'_>,
    written: &Spanned<WrittenUpstreamTls>,
) -> Option<UpstreamTls> {
    let tls = &written.value;
    let identity = pem::identity(check, tls.cert.as_ref(), tls.key.as_ref())?;
    let name = check.read_some(tls.server_name.as_ref());
    let trust = trust(check, tls, written.place)?;
    let name = name.map(|CertificateName(name)| name);
    let made = UpstreamTls::new(trust, identity.as_ref(), name);
    let scalars = [&tls.ca, &tls.cert, &tls.key];
    usable(check, made, scalars.into_iter().flatten())
}

fn trust(check: &mut Check<'_>, tls: &WrittenUpstreamTls, whole: Option<Place>) -> Option<Trust> {
    let verify = check.read_some(tls.verify.as_ref()).unwrap_or(true);
    let place = tls.verify.as_ref().and_then(|scalar| scalar.place);
    match (&tls.ca, verify) {
        (Some(_), false) => {
            let problem = Problem::new(place, "`ca` has no effect without verification");
            check.refuse(problem.note("leave one of them out"));
            None
        }
        (None, false) => {
            let message = "the certificates of these servers are not verified";
            check.warn(Problem::new(place, message).note(
                "an attacker on the way can read and change everything: set `ca` to the authority of the servers",
            ));
            Some(Trust::Anybody)
        }
        (Some(scalar), true) => check.file(scalar).map(Trust::File),
        (None, true) => pem::system(check, whole, NO_AUTHORITIES),
    }
}
