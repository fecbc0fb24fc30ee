//! `redis.tls`: the files of authorities, certificate and key, read while there is a place to point at.

use crate::yaml::{Place, Problem, Spanned};
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_net::tls::{Trust, client_config};
use tidegate_store::redis::{Tls, is_tls};

use crate::check::Check;
use crate::pem::{self, usable};
use crate::value::Scalar;
use crate::value::word::FilePath;

/// TLS to Redis. Names are always verified.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RedisTls {
    /// A file with the certificates of the only authorities that are trusted. Default: those of the system.
    pub(crate) ca: Option<Scalar<FilePath>>,
    /// A file with the certificate that the gateway shows. Default: none.
    pub(crate) cert: Option<Scalar<FilePath>>,
    /// A file with the key of that certificate.
    pub(crate) key: Option<Scalar<FilePath>>,
}

/// What is trusted and shown, if the URL asks for TLS; nothing at all if something is wrong with it.
pub(crate) fn redis_tls(
    check: &mut Check<'_>,
    written: Option<&Spanned<RedisTls>>,
    url: &str,
    place: Option<Place>,
) -> Option<Option<Tls>> {
    let Some(written) = written else {
        if !is_tls(url) {
            return Some(None);
        }
        let made = client_config(system(check, place)?, None);
        return usable(check, made, &[]).map(|config| Some(Tls::from(config)));
    };
    if !is_tls(url) {
        check.refuse(
            Problem::new(written.place, "the URL does not use TLS").note(
                "a URL with TLS begins with rediss://, rediss-cluster:// or rediss-sentinel://",
            ),
        );
        return None;
    }
    let tls = &written.value;
    let identity = pem::identity(check, tls.cert.as_ref(), tls.key.as_ref())?;
    let trust = match &tls.ca {
        Some(scalar) => Trust::File(check.file(scalar)?),
        None => system(check, written.place)?,
    };
    let made = client_config(trust, identity.as_ref());
    let scalars = [&tls.ca, &tls.cert, &tls.key];
    let scalars: Vec<_> = scalars.into_iter().flatten().collect();
    usable(check, made, &scalars).map(|config| Some(Tls::from(config)))
}

fn system(check: &mut Check<'_>, place: Option<Place>) -> Option<Trust> {
    let remedy = "a file with those of Redis is named by `tls: { ca: … }` beside its `url`";
    pem::system(check, place, remedy).map(Trust::Authorities)
}
