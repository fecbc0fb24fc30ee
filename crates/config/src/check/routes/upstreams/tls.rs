//! TLS to the servers of an upstream: whom to trust, and who we are.

use std::sync::Arc;

use crate::check::Check;
use crate::file;
use crate::value::CertificateName;
use tidegate_net::tls::{self, CertificateFiles, Trust, UpstreamTls};
use tidegate_yaml::Spanned;
use tidegate_yaml::{Place, Problem};

impl Check<'_> {
    /// Those whom this machine trusts; refused where nobody is.
    pub(super) fn system(&mut self, place: Option<Place>) -> Option<Trust> {
        let roots = tls::system_authorities();
        if roots.is_none() {
            let problem = Problem::new(place, "this system has no certificate authorities");
            self.refuse(problem.note(
                "a file with those of a server is named under `upstreams`: `tls: { ca: … }` beside its `servers`",
            ));
        }
        roots.map(|roots| Trust::Roots(Arc::new(roots)))
    }

    pub(super) fn upstream_tls(
        &mut self,
        written: &Spanned<file::UpstreamTls>,
    ) -> Option<UpstreamTls> {
        let tls = &written.value;
        let identity = match (&tls.cert, &tls.key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some(CertificateFiles {
                certificate: self.file(certificate)?,
                key: self.file(key)?,
            }),
            (Some(alone), None) | (None, Some(alone)) => {
                self.refuse(
                    Problem::new(alone.place, "one of `cert` and `key` is missing")
                        .note("a certificate and its key are given together"),
                );
                return None;
            }
        };
        let name = self.read_some(tls.server_name.as_ref());
        let trust = self.trust(tls, written.place)?;
        let made = UpstreamTls::new(
            trust,
            identity.as_ref(),
            name.map(|CertificateName(name)| name),
        );
        let scalars = [&tls.ca, &tls.cert, &tls.key];
        let scalars: Vec<_> = scalars.into_iter().flatten().collect();
        self.usable(made, &scalars)
    }

    fn trust(&mut self, tls: &file::UpstreamTls, whole: Option<Place>) -> Option<Trust> {
        let verify = self.read_some(tls.verify.as_ref()).unwrap_or(true);
        let place = tls.verify.as_ref().and_then(|scalar| scalar.place);
        match (&tls.ca, verify) {
            (Some(_), false) => {
                let problem = Problem::new(place, "`ca` has no effect without verification");
                self.refuse(problem.note("leave one of them out"));
                None
            }
            (None, false) => {
                self.warn(
                    Problem::new(place, "the certificates of these servers are not verified")
                        .note("an attacker on the way can read and change everything: set `ca` to the authority of the servers"),
                );
                Some(Trust::Anybody)
            }
            (Some(scalar), true) => self.file(scalar).map(Trust::File),
            (None, true) => self.system(whole),
        }
    }
}
