//! Information about certificates for operators: a name, and the end of the validity.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::sign::CertifiedKey;
use webpki::{EndEntityCert, Error, KeyUsage};

/// A certificate of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownCertificate {
    /// The first DNS name in the certificate. Empty if the certificate has no DNS name.
    pub name: String,
    /// The earliest end of validity among this certificate and its intermediate certificates.
    pub ends: Option<SystemTime>,
}

impl ShownCertificate {
    pub(super) fn of(key: &CertifiedKey) -> Self {
        let ends = key.cert.iter().filter_map(end);
        Self {
            name: names_in(key).into_iter().next().unwrap_or_default(),
            ends: ends.min(),
        }
    }
}

/// Returns the DNS names in a certificate, in lower case.
pub(super) fn names_in(key: &CertifiedKey) -> Vec<String> {
    let first = key.cert.first();
    let Some(certificate) = first.and_then(|der| EndEntityCert::try_from(der).ok()) else {
        return Vec::new();
    };
    certificate.valid_dns_names().map(normal).collect()
}

pub(super) fn normal(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// Returns the end of a certificate's validity. The library has no function that returns the end. But its verifier checks the validity
/// period first, and the error for an expired certificate contains the end. So this function verifies the certificate at the latest
/// possible time.
pub(super) fn end(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let at_last = UnixTime::since_unix_epoch(Duration::from_secs(u64::MAX));
    let usage = KeyUsage::server_auth();
    let refused = certificate.verify_for_usage(&[], &[], &[], at_last, usage, None, None);
    match refused.err()? {
        Error::CertExpired { not_after, .. } => {
            UNIX_EPOCH.checked_add(Duration::from_secs(not_after.as_secs()))
        }
        _ => None,
    }
}
