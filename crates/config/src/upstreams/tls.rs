//! `tls` of an upstream: whom to trust, and who we are.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_net::tls;
use tidegate_net::tls::{CertificateFiles, Trust, UpstreamTls};
use tidegate_yaml::{Place, Problem, Spanned};

use crate::check::Check;
use crate::pem::usable;
use crate::value::word::FilePath;
use crate::value::{Fault, Scalar, Value};

/// TLS to servers. Never left out where it is asked for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "UpstreamTls")]
pub(crate) struct WrittenUpstreamTls {
    /// A file with the certificates of the only authorities that are trusted. Default: those of the system.
    pub(crate) ca: Option<Scalar<FilePath>>,
    /// A file with the certificate that the gateway shows. Default: none.
    pub(crate) cert: Option<Scalar<FilePath>>,
    /// A file with the key of that certificate.
    pub(crate) key: Option<Scalar<FilePath>>,
    /// The name that the servers' certificate must have. Default: each server's host.
    pub(crate) server_name: Option<Scalar<CertificateName>>,
    /// Whether the certificate must be right. Default: true.
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
        name.map(Self).map_err(|_| Fault::Form)
    }
}

/// Those whom this machine trusts; refused where nobody is.
pub(crate) fn system(check: &mut Check<'_>, place: Option<Place>) -> Option<Trust> {
    let roots = tls::system_authorities();
    if roots.is_none() {
        let problem = Problem::new(place, "this system has no certificate authorities");
        check.refuse(problem.note(
            "a file with those of a server is named under `upstreams`: `tls: { ca: … }` beside its `servers`",
        ));
    }
    roots.map(|roots| Trust::Roots(Arc::new(roots)))
}

pub(crate) fn upstream_tls(
    check: &mut Check<'_>,
    written: &Spanned<WrittenUpstreamTls>,
) -> Option<UpstreamTls> {
    let tls = &written.value;
    let identity = match (&tls.cert, &tls.key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some(CertificateFiles {
            certificate: check.file(certificate)?,
            key: check.file(key)?,
        }),
        (Some(alone), None) | (None, Some(alone)) => {
            check.refuse(
                Problem::new(alone.place, "one of `cert` and `key` is missing")
                    .note("a certificate and its key are given together"),
            );
            return None;
        }
    };
    let name = check.read_some(tls.server_name.as_ref());
    let trust = trust(check, tls, written.place)?;
    let made = UpstreamTls::new(
        trust,
        identity.as_ref(),
        name.map(|CertificateName(name)| name),
    );
    let scalars = [&tls.ca, &tls.cert, &tls.key];
    let scalars: Vec<_> = scalars.into_iter().flatten().collect();
    usable(check, made, &scalars)
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
            check.warn(
                Problem::new(place, "the certificates of these servers are not verified")
                    .note("an attacker on the way can read and change everything: set `ca` to the authority of the servers"),
            );
            Some(Trust::Anybody)
        }
        (Some(scalar), true) => check.file(scalar).map(Trust::File),
        (None, true) => system(check, whole),
    }
}
