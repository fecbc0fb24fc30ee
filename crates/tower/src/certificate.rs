//! Clients that a verified certificate names.

use std::sync::Arc;

/// What in a client's certificate names the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CertificateName {
    /// The first DNS name among its alternative names.
    #[default]
    SanDns,
    /// The first URI among its alternative names.
    SanUri,
    /// The common name of its subject.
    Cn,
    /// The SHA-256 of the certificate.
    Fingerprint,
}

impl CertificateName {
    /// All of them, as they are written in YAML.
    pub const ALL: [(&'static str, Self); 4] = [
        ("san_dns", Self::SanDns),
        ("san_uri", Self::SanUri),
        ("cn", Self::Cn),
        ("fingerprint", Self::Fingerprint),
    ];

    /// As it is written in YAML.
    pub fn word(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, known)| *known == self);
        found.map_or("", |(word, _)| word)
    }
}

/// The names in a certificate that a client showed and its connection's handshake verified, in a request's extensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateNames {
    /// The first DNS name among its alternative names.
    pub san_dns: Option<Arc<str>>,
    /// The first URI among its alternative names.
    pub san_uri: Option<Arc<str>>,
    /// The common name of its subject.
    pub cn: Option<Arc<str>>,
    /// The SHA-256 of the certificate, in hexadecimal digits.
    pub fingerprint: Option<Arc<str>>,
}

impl CertificateNames {
    /// The name of this kind, if the certificate has one.
    pub const fn get(&self, name: CertificateName) -> Option<&Arc<str>> {
        match name {
            CertificateName::SanDns => self.san_dns.as_ref(),
            CertificateName::SanUri => self.san_uri.as_ref(),
            CertificateName::Cn => self.cn.as_ref(),
            CertificateName::Fingerprint => self.fingerprint.as_ref(),
        }
    }
}
