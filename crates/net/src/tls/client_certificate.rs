//! Names, fingerprint and end of validity of a client's certificate.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::CommonState;
use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use super::pem::{FileError, PemError, certificates};
use super::shown::{end, normal};

/// The longest name that is used, in bytes. A longer name counts as missing.
const MAX_NAME: usize = 256;

/// The encoded object identifier of a common name (RFC 5280, A.1).
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// A client's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The first DNS name among its alternative names, in lower case.
    pub san_dns: Option<Arc<str>>,
    /// The first URI among its alternative names.
    pub san_uri: Option<Arc<str>>,
    /// The common name of its subject, if the subject has exactly one common name.
    pub cn: Option<Arc<str>>,
    /// The SHA-256 of the certificate, in hexadecimal digits.
    pub fingerprint: Arc<str>,
    /// The earliest end of validity among this certificate and all certificates that the client sent with it.
    pub ends: Option<SystemTime>,
}

impl ClientCertificate {
    /// Returns the verified certificate of a connection's client, if the client sent one. The handshake must have ended.
    pub fn of(connection: &CommonState) -> Option<Self> {
        Self::first_of(connection.peer_certificates()?)
    }

    /// Returns the first certificate of a file, without verification.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has no certificate.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let chain = certificates(path)?;
        let first = chain.and_then(|chain| Self::first_of(&chain));
        first.ok_or_else(|| PemError::Certificate.of(path))
    }

    fn first_of(chain: &[CertificateDer<'_>]) -> Option<Self> {
        let der = chain.first()?;
        let certificate = EndEntityCert::try_from(der).ok()?;
        let dns = certificate.valid_dns_names().map(normal).next();
        let uri = certificate.valid_uri_names().next();
        Some(Self {
            san_dns: dns.as_deref().and_then(name),
            san_uri: uri.and_then(name),
            cn: common_name(certificate.subject()).and_then(name),
            fingerprint: fingerprint(der),
            ends: chain.iter().filter_map(end).min(),
        })
    }
}

/// Returns a name, unless it is empty or too long, or has control characters, which logs and headers cannot contain.
fn name(text: &str) -> Option<Arc<str>> {
    let fits = (1..=MAX_NAME).contains(&text.len()) && !text.contains(char::is_control);
    fits.then(|| text.into())
}

fn fingerprint(der: &[u8]) -> Arc<str> {
    let hash = digest(&SHA256, der);
    let digits = hash.as_ref().iter().map(|byte| format!("{byte:02x}"));
    digits.collect::<String>().into()
}

/// Returns the common name of a subject, if the subject has exactly one common name. In DER a subject is a sequence of sets, which contain
/// pairs of type and value (RFC 5280, 4.1.2.4).
fn common_name(subject: &[u8]) -> Option<&str> {
    const UTF8: u8 = 0x0c;
    const PRINTABLE: u8 = 0x13;
    const IA5: u8 = 0x16;
    let sets = elements(subject).filter(|(tag, _)| *tag == 0x31);
    let pairs = sets
        .flat_map(|(_, set)| elements(set))
        .filter(|(tag, _)| *tag == 0x30);
    let mut names = pairs.filter_map(|(_, pair)| {
        let mut parts = elements(pair);
        let (kind, value) = (parts.next()?, parts.next()?);
        (kind == (0x06, COMMON_NAME)).then_some(value)
    });
    match (names.next(), names.next()) {
        (Some((UTF8 | PRINTABLE | IA5, text)), None) => std::str::from_utf8(text).ok(),
        _ => None,
    }
}

/// Returns the elements of a DER value, each with its tag. Stops at the first broken element.
fn elements(mut rest: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (&[tag, short], after) = rest.split_first_chunk::<2>()?;
        let (length, after) = match short {
            0..=0x7f => (usize::from(short), after),
            0x81 => {
                let (&[length], after) = after.split_first_chunk::<1>()?;
                (usize::from(length), after)
            }
            0x82 => {
                let (&length, after) = after.split_first_chunk::<2>()?;
                (usize::from(u16::from_be_bytes(length)), after)
            }
            _ => return None,
        };
        let (value, after) = after.split_at_checked(length)?;
        rest = after;
        Some((tag, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(tag: u8, value: &[u8]) -> Vec<u8> {
        let length = match value.len() {
            short @ 0..=0x7f => vec![short as u8],
            long @ 0..=0xff => vec![0x81, long as u8],
            long => [&[0x82][..], &(long as u16).to_be_bytes()].concat(),
        };
        [&[tag][..], &length, value].concat()
    }

    /// Encodes a pair of a type and a value.
    fn pair(kind: &[u8], tag: u8, text: &[u8]) -> Vec<u8> {
        let pair = [element(0x06, kind), element(tag, text)].concat();
        element(0x30, &pair)
    }

    /// Encodes a set with one common name.
    fn named(tag: u8, text: &[u8]) -> Vec<u8> {
        element(0x31, &pair(COMMON_NAME, tag, text))
    }

    #[test]
    fn a_common_name_is_found_among_others() {
        let id = pair(&[0x55, 0x04, 0x06], 0x13, b"ID");
        let country = element(0x31, &id);
        let long = "n".repeat(200);
        for (tag, text) in [(0x0c, "acme"), (0x13, "acme"), (0x16, "a"), (0x0c, &*long)] {
            let own = named(tag, text.as_bytes());
            for subject in [
                own.clone(),
                [country.clone(), own.clone()].concat(),
                [own, country.clone()].concat(),
            ] {
                assert_eq!(common_name(&subject), Some(text));
            }
        }
        let pairs = [id, pair(COMMON_NAME, 0x13, b"acme")].concat();
        let in_one_set = element(0x31, &pairs);
        assert_eq!(common_name(&in_one_set), Some("acme"));
    }

    #[test]
    fn what_is_no_one_common_name_is_none() {
        let acme = named(0x0c, b"acme");
        let two = [acme.clone(), named(0x0c, b"umbrella")].concat();
        assert_eq!(common_name(&two), None, "nobody knows which");
        assert_eq!(common_name(&named(0x1e, b"\0a")), None, "UTF-16");
        assert_eq!(common_name(&named(0x0c, b"\xff")), None);
        for cut in 0..acme.len() {
            assert_eq!(common_name(&acme[..cut]), None, "{cut}");
        }
        assert_eq!(common_name(&[0x31, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(name(""), None);
        assert_eq!(name("a\nb"), None);
        assert_eq!(name(&"a".repeat(MAX_NAME + 1)), None);
        assert_eq!(name("acme").as_deref(), Some("acme"));
    }
}
