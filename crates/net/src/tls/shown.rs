//! What certificates say of themselves that is of use to those who run a gateway: a name, and when they end.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::sign::CertifiedKey;
use webpki::{EndEntityCert, Error, KeyUsage};

/// A certificate that a listener shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownCertificate {
    /// The first name that it is for; empty if it is for addresses alone.
    pub name: String,
    /// When the first ends of it and those between it and its authority, which are shown with it.
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

/// The names that a certificate is for, in one spelling.
pub(super) fn names_in(key: &CertifiedKey) -> Vec<String> {
    let certificate = key.cert.first();
    let certificate = certificate.and_then(|der| EndEntityCert::try_from(der).ok());
    let names = certificate
        .iter()
        .flat_map(|certificate| certificate.valid_dns_names());
    names.map(normal).collect()
}

pub(super) fn normal(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// When a certificate ends. A verifier looks at the certificate's times first, and says when it ended if it has by then. So the
/// verifier is asked about the end of all time, with no authority to trust.
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
