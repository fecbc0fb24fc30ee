//! Clients that a verified certificate names.

use std::sync::Arc;

use tidegate_net::tls::ClientCertificate;

/// The part of a client's certificate that names the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CertificateName {
    /// The first DNS name among the certificate's alternative names.
    #[default]
    SanDns,
    /// The first URI among the certificate's alternative names.
    SanUri,
    /// The common name of the certificate's subject.
    Cn,
    /// The SHA-256 of the certificate.
    Fingerprint,
}

impl CertificateName {
    /// All parts of a certificate that can name a client, each with its word in the configuration.
    pub const ALL: [(&'static str, Self); 4] = [
        ("san_dns", Self::SanDns),
        ("san_uri", Self::SanUri),
        ("cn", Self::Cn),
        ("fingerprint", Self::Fingerprint),
    ];

    /// Returns the word for this part in the configuration.
    pub fn word(self) -> &'static str {
        let entry = Self::ALL.iter().find(|(_, name)| *name == self);
        entry.map_or("", |(word, _)| word)
    }

    /// Returns the name in this part of a certificate. `None` if the certificate lacks the part.
    pub(crate) const fn of(self, certificate: &ClientCertificate) -> Option<&Arc<str>> {
        match self {
            Self::SanDns => certificate.san_dns.as_ref(),
            Self::SanUri => certificate.san_uri.as_ref(),
            Self::Cn => certificate.cn.as_ref(),
            Self::Fingerprint => Some(&certificate.fingerprint),
        }
    }
}
