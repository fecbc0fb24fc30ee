//! Reasons why a client's handshake failed, as labels of metrics.

use std::io;

use rustls::{CertificateError, Error, InvalidMessage};

use super::pem::is_old;

/// The reason why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeFailure {
    /// The handshake took too long.
    Timeout,
    /// The connection ended during the handshake.
    Closed,
    /// The client did not send TLS.
    NotTls,
    /// Client and gateway have no TLS version, cipher suite or HTTP version in common.
    Incompatible,
    /// The client sent no certificate, although one is required.
    NoCertificate,
    /// The client's certificate is not accepted.
    BadCertificate,
    /// The client's certificate has X.509 version 1, or a key or signature that is not supported.
    UnsupportedCertificate,
    /// The client sent an alert, for example because it does not accept the gateway's certificate.
    RefusedByClient,
    /// The client's address has reached its limit of unfinished handshakes.
    TooMany,
    /// Any other reason.
    Other,
}

impl HandshakeFailure {
    /// All variants.
    pub const ALL: [Self; 10] = [
        Self::Timeout,
        Self::Closed,
        Self::NotTls,
        Self::Incompatible,
        Self::NoCertificate,
        Self::BadCertificate,
        Self::UnsupportedCertificate,
        Self::RefusedByClient,
        Self::TooMany,
        Self::Other,
    ];

    /// Returns the label for metrics and logs.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Closed => "closed",
            Self::NotTls => "not_tls",
            Self::Incompatible => "incompatible",
            Self::NoCertificate => "no_certificate",
            Self::BadCertificate => "bad_certificate",
            Self::UnsupportedCertificate => "unsupported_certificate",
            Self::RefusedByClient => "refused_by_client",
            Self::TooMany => "too_many",
            Self::Other => "other",
        }
    }
}

/// Classifies the error of a handshake.
pub fn handshake_failure(error: &io::Error) -> HandshakeFailure {
    let Some(error) = cause(error) else {
        return HandshakeFailure::Closed;
    };
    match error {
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => HandshakeFailure::NotTls,
        Error::PeerIncompatible(_) | Error::NoApplicationProtocol => HandshakeFailure::Incompatible,
        Error::NoCertificatesPresented => HandshakeFailure::NoCertificate,
        error if is_old(error) => HandshakeFailure::UnsupportedCertificate,
        Error::InvalidCertificate(
            CertificateError::UnsupportedSignatureAlgorithmContext { .. }
            | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. },
        ) => HandshakeFailure::UnsupportedCertificate,
        Error::InvalidCertificate(_) => HandshakeFailure::BadCertificate,
        Error::AlertReceived(_) => HandshakeFailure::RefusedByClient,
        _ => HandshakeFailure::Other,
    }
}

/// Returns the error of TLS, or `None` if the connection itself broke.
pub(super) fn cause(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}
