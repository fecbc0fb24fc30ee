//! The trusted certificates of a `ca` file: certificates of authorities, and of single servers and clients.
//!
//! `openssl req -x509` marks a self-signed certificate as an authority's (basicConstraints CA:TRUE). Verifiers refuse such a certificate if
//! a server uses it. This module accepts a certificate that the file itself contains, after it has verified the validity period and the
//! name of the certificate.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};

use super::provider;

/// Trusted certificates.
#[derive(Clone, Debug)]
pub struct Authorities {
    roots: Arc<RootCertStore>,
    /// Certificates that peers themselves may use. Empty for the authorities of the system.
    listed: Arc<[CertificateDer<'static>]>,
}

impl Authorities {
    /// Returns the authorities of this system, or `None` if there are none.
    pub fn of_the_system() -> Option<Self> {
        let mut roots = RootCertStore::empty();
        // Certificates that rustls cannot parse are skipped, because some systems have very old certificates.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        (!roots.is_empty()).then(|| Self {
            roots: Arc::new(roots),
            listed: Arc::default(),
        })
    }

    /// Makes authorities from the certificates of a `ca` file. Returns `None` if any of the certificates is broken.
    pub(super) fn listed(listed: Vec<CertificateDer<'static>>) -> Option<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in &listed {
            roots.add(certificate.clone()).ok()?;
        }
        Some(Self {
            roots: Arc::new(roots),
            listed: listed.into(),
        })
    }

    /// Returns a verifier of clients' certificates. If `required`, a client without a certificate is refused.
    pub(super) fn of_clients(
        &self,
        required: bool,
    ) -> Result<Arc<dyn ClientCertVerifier>, VerifierBuilderError> {
        let roots = self.roots.clone();
        let mut verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
        if !required {
            verifier = verifier.allow_unauthenticated();
        }
        Ok(Arc::new(Listed {
            verifier: verifier.build()?,
            listed: self.listed.clone(),
        }))
    }
}

/// Returns a verifier of servers' certificates. Without authorities it accepts any certificate, and verifies only that the server has its
/// key.
pub(super) fn server_verifier(
    authorities: Option<&Authorities>,
) -> Result<Arc<dyn ServerCertVerifier>, VerifierBuilderError> {
    let trusted = match authorities {
        None => None,
        Some(Authorities { roots, listed }) => {
            let verifier = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider());
            Some(Listed {
                verifier: verifier.build()?,
                listed: listed.clone(),
            })
        }
    };
    Ok(Arc::new(ServerVerifier {
        trusted,
        algorithms: provider().signature_verification_algorithms,
    }))
}

/// A verifier of the certificates of servers.
#[derive(Debug)]
struct ServerVerifier {
    trusted: Option<Listed<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// A verifier that also accepts listed certificates. The extended key usage of a listed certificate is not checked.
#[derive(Debug)]
struct Listed<V: ?Sized> {
    listed: Arc<[CertificateDer<'static>]>,
    verifier: Arc<V>,
}

impl<V: ?Sized> Listed<V> {
    /// Whether the certificate `shown` is listed, and `error` refuses it only because it is marked as an authority's or has an unknown
    /// issuer. The verifier checks the validity period first, so an expired certificate is never accepted.
    fn accepts(&self, shown: &CertificateDer<'_>, error: &Error) -> bool {
        let is_of_its_issuer = match error {
            Error::InvalidCertificate(CertificateError::UnknownIssuer) => true,
            error => matches!(webpki_error(error), Some(webpki::Error::CaUsedAsEndEntity)),
        };
        is_of_its_issuer && self.listed.iter().any(|listed| listed == shown)
    }
}

/// Returns the verifier's own error, if rustls has no variant for the error.
pub(super) fn webpki_error(error: &Error) -> Option<&webpki::Error> {
    match error {
        Error::InvalidCertificate(CertificateError::Other(other)) => other.0.downcast_ref(),
        _ => None,
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(trusted) = &self.trusted else {
            return Ok(ServerCertVerified::assertion());
        };
        let verifier = &trusted.verifier;
        match verifier.verify_server_cert(shown, between, name, ocsp, now) {
            Err(error) if trusted.accepts(shown, &error) => {
                verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Listed<dyn ClientCertVerifier> {
    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.verifier.verify_client_cert(shown, between, now) {
            Err(error) if self.accepts(shown, &error) => Ok(ClientCertVerified::assertion()),
            verified => verified,
        }
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.verifier.client_auth_mandatory()
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
