//! TLS to the servers of an upstream: whom to trust, and who we are.

use std::sync::Arc;

use crate::check::tls::usable;
use crate::file;
use crate::reading::Check;
use crate::value::CertificateName;
use tidegate_net::tls::{self, CertificateFiles, Trust, UpstreamTls};
use tidegate_yaml::Spanned;
use tidegate_yaml::{Place, Problem};

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
    written: &Spanned<file::UpstreamTls>,
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

fn trust(check: &mut Check<'_>, tls: &file::UpstreamTls, whole: Option<Place>) -> Option<Trust> {
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
