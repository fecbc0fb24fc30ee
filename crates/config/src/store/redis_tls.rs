//! `redis.tls`: the files of authorities, certificate and key. The check of the configuration reads the files, so that an error shows the
//! line that names the file.

use crate::yaml::{Place, Problem, Spanned};
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_net::tls::{Trust, client_config};
use tidegate_store::redis::{Tls, is_tls};

use crate::check::Check;
use crate::pem::{self, usable};
use crate::value::Scalar;
use crate::value::word::FilePath;

/// TLS to Redis. The name in the certificate is always verified.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RedisTls {
    /// A file with the certificates of the only authorities that are trusted. Default: the system's.
    pub(crate) ca: Option<Scalar<FilePath>>,
    /// A file with the gateway's certificate. Default: none.
    pub(crate) cert: Option<Scalar<FilePath>>,
    /// A file with the key of `cert`.
    pub(crate) key: Option<Scalar<FilePath>>,
}

impl RedisTls {
    /// Returns the files of the authorities, of the certificate and of its key.
    pub(crate) fn files(&self) -> [Option<&Scalar<FilePath>>; 3] {
        [&self.ca, &self.cert, &self.key].map(Option::as_ref)
    }
}

/// Reads the trusted authorities and the gateway's certificate. `Some(None)` if the URL has no TLS, `None` if a part is refused.
pub(crate) fn redis_tls(
    check: &mut Check<'_>,
    written: Option<&Spanned<RedisTls>>,
    url: &str,
    place: Option<Place>,
) -> Option<Option<Tls>> {
    if !is_tls(url) {
        let Some(written) = written else {
            return Some(None);
        };
        check.refuse(
            Problem::new(written.place, "the URL does not use TLS").note(
                "a URL with TLS begins with rediss://, rediss-cluster:// or rediss-sentinel://",
            ),
        );
        return None;
    }
    let place = written.map_or(place, |written| written.place);
    let files = written.map(|written| written.value.files());
    let [ca, cert, key] = files.unwrap_or_default();
    let identity = pem::identity(check, cert, key)?;
    let remedy = "a file with those of Redis is named by `tls: { ca: … }` beside its `url`";
    let trust = match ca {
        Some(scalar) => Trust::File(check.file(scalar)?),
        None => pem::system(check, place, remedy)?,
    };
    let made = client_config(trust, identity.as_ref());
    let scalars = [ca, cert, key].into_iter().flatten();
    usable(check, made, scalars).map(|config| Some(Tls::from(config)))
}
