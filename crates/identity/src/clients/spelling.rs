//! Changes names in the configuration to the spelling that client sources produce, so that each name matches the intended client.

use std::borrow::Cow;

use super::{ClientSource, Clients};
use crate::certificate::CertificateName;

/// The longest name of a certificate that can name a client, in bytes.
const MAX_CERTIFICATE_NAME: usize = 256;

impl Clients {
    /// Returns a certificate's name in the spelling that sources produce: DNS names in lower case, fingerprints in lower case and without
    /// colons. `None` if no certificate can have the name.
    pub fn certificate_name<'n>(&self, name: &'n str) -> Option<Cow<'n, str>> {
        let reads = |wanted: fn(CertificateName) -> bool| {
            let mut sources = self.sources.iter();
            sources.any(|source| matches!(source, ClientSource::Certificate(it) if wanted(*it)))
        };
        // URIs and common names are compared unchanged.
        let is_any = reads(|it| matches!(it, CertificateName::SanUri | CertificateName::Cn));
        if is_any && name.len() <= MAX_CERTIFICATE_NAME {
            return Some(name.into());
        }
        if !is_any && reads(|it| it == CertificateName::Fingerprint) {
            let digits: String = name.chars().filter(|char| *char != ':').collect();
            if digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Some(digits.to_ascii_lowercase().into());
            }
        }
        let is_dns = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.*".contains(&byte);
        let dns = name.trim_end_matches('.').to_ascii_lowercase();
        let fits = !is_any && (1..=MAX_CERTIFICATE_NAME).contains(&dns.len());
        let fits = fits && reads(|it| it == CertificateName::SanDns);
        (fits && dns.bytes().all(is_dns)).then_some(dns.into())
    }

    /// Whether a user can have this ID. An ID from a header never has blanks at its ends, because the source removes them. An ID from a
    /// token may have such blanks.
    pub fn can_name_user(&self, id: &str) -> bool {
        id.trim_ascii() == id || self.has_tokens()
    }
}

#[cfg(test)]
mod tests;
