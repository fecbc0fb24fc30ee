//! `redis.tls`: the files of authorities, certificate and key, read while there is a place to point at.

use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_store::redis::{InvalidTls, Tls, is_tls};
use tidegate_yaml::{Place, Problem, Spanned};

use crate::check::Check;
use crate::pem::{unreadable, unusable};
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
        return made(check, url, place, None, None);
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
    let identity = match (&tls.cert, &tls.key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (Some(alone), None) | (None, Some(alone)) => {
            check.refuse(
                Problem::new(alone.place, "one of `cert` and `key` is missing")
                    .note("a certificate and its key are given together"),
            );
            return None;
        }
    };
    made(check, url, place, tls.ca.as_ref(), identity)
}

fn made(
    check: &mut Check<'_>,
    url: &str,
    place: Option<Place>,
    ca: Option<&Scalar<FilePath>>,
    identity: Option<(&Scalar<FilePath>, &Scalar<FilePath>)>,
) -> Option<Option<Tls>> {
    if !is_tls(url) {
        return Some(None);
    }
    let authorities = match ca {
        Some(scalar) => Some(content(check, scalar)?),
        None => None,
    };
    let shown = match identity {
        Some((certificate, key)) => Some((content(check, certificate)?, content(check, key)?)),
        None => None,
    };
    let pair = shown
        .as_ref()
        .map(|(certificate, key)| (&certificate[..], &key[..]));
    let error = match Tls::new(authorities.as_deref(), pair) {
        Ok(tls) => return Some(Some(tls)),
        Err(error) => error,
    };
    let scalar = match error {
        InvalidTls::Authority => ca,
        InvalidTls::Certificate => identity.map(|(certificate, _)| certificate),
        InvalidTls::Key | InvalidTls::Mismatch => identity.map(|(_, key)| key),
        InvalidTls::NoAuthorities => None,
    };
    let why = error.to_string();
    let problem = match scalar {
        Some(scalar) => unusable(scalar, &check.file(scalar)?, &why),
        None => Problem::new(place, why),
    };
    check.refuse(problem);
    None
}

fn content(check: &mut Check<'_>, scalar: &Scalar<FilePath>) -> Option<Vec<u8>> {
    let path = check.file(scalar)?;
    match std::fs::read(&path) {
        Ok(content) => Some(content),
        Err(error) => {
            unreadable(check, scalar, &path, &error);
            None
        }
    }
}
