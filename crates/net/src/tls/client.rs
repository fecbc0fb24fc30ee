//! TLS towards upstreams: whom to believe, and who we are. Nothing falls back to plain.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::failure::cause;
use super::pem::{self, CertificateFiles, FileError, PemError};
use super::{HTTP1, HTTP2, provider};

/// Whose word is taken on a server's name.
#[derive(Debug)]
pub enum Trust {
    /// That of these authorities.
    Roots(Arc<RootCertStore>),
    /// That of the authorities in a file, alone.
    File(PathBuf),
    /// Anybody's: the connection is secret, but nobody knows with whom.
    Anybody,
}

/// Which HTTP is offered to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// HTTP/2, else HTTP/1.
    Any,
    /// HTTP/1 alone.
    Http1,
}

/// How an upstream's servers are spoken to.
pub struct UpstreamTls {
    any: Arc<ClientConfig>,
    http1: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
}

impl std::fmt::Debug for UpstreamTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpstreamTls")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl UpstreamTls {
    /// Believes `trust`, shows a certificate if there is one, and expects `name` in place of the host that is dialled.
    ///
    /// # Errors
    ///
    /// A file holds no certificate or key, or an authority cannot be used.
    pub fn new(
        trust: Trust,
        identity: Option<&CertificateFiles>,
        name: Option<ServerName<'static>>,
    ) -> Result<Self, FileError> {
        let mut config = config(trust, identity)?;
        config.alpn_protocols = vec![HTTP1.to_vec()];
        let http1 = Arc::new(config.clone());
        config.alpn_protocols.insert(0, HTTP2.to_vec());
        Ok(Self {
            any: Arc::new(config),
            http1,
            name,
        })
    }

    /// Makes a connection a protected one, with a server that may be called `host`.
    ///
    /// # Errors
    ///
    /// The connection or the handshake failed, with the reason as text.
    pub async fn connect(
        &self,
        host: &str,
        socket: TcpStream,
        offer: Offer,
    ) -> Result<TlsStream<TcpStream>, String> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.to_owned())
                .map_err(|_| "this host cannot stand in a certificate".to_owned())?,
        };
        let config = match offer {
            Offer::Any => &self.any,
            Offer::Http1 => &self.http1,
        };
        let connecting = TlsConnector::from(config.clone()).connect(name, socket);
        connecting.await.map_err(|error| reason(&error))
    }
}

/// Whom this machine believes; none if it believes nobody.
pub fn system_authorities() -> Option<RootCertStore> {
    let mut roots = RootCertStore::empty();
    // A few of a system's authorities may be too old to be understood.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    (!roots.is_empty()).then_some(roots)
}

/// TLS of a client that shows no certificate and believes `authorities`, or those of this machine. Unless it is for `https`, it
/// needs none.
///
/// # Errors
///
/// There are no `authorities`, and this machine has none that can be read.
pub fn https_client(
    authorities: Option<Arc<RootCertStore>>,
    https: bool,
) -> io::Result<ClientConfig> {
    let none = || {
        io::Error::new(
            io::ErrorKind::NotFound,
            "no native root CA certificates found",
        )
    };
    let authorities = match authorities {
        Some(authorities) => authorities,
        None if https => Arc::new(system_authorities().ok_or_else(none)?),
        None => Arc::new(RootCertStore::empty()),
    };
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    Ok(builder
        .with_root_certificates(authorities)
        .with_no_client_auth())
}

fn config(trust: Trust, identity: Option<&CertificateFiles>) -> Result<ClientConfig, FileError> {
    let provider = provider();
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Roots(roots) => verifier(roots, &provider, PathBuf::new())?,
        Trust::File(path) => verifier(Arc::new(pem::authorities(&path)?), &provider, path)?,
        Trust::Anybody => Arc::new(Credulous(provider.clone())),
    };
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    // The provider is our own choice and has all versions, so this never says no.
    let builder = builder.map_err(|_| PemError::Authority.of(&PathBuf::new()))?;
    let builder = builder
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    Ok(match identity {
        None => builder.with_no_client_auth(),
        Some(files) => {
            let shown = rustls::sign::SingleCertAndKey::from(files.load()?);
            builder.with_client_cert_resolver(Arc::new(shown))
        }
    })
}

fn verifier(
    roots: Arc<RootCertStore>,
    provider: &Arc<CryptoProvider>,
    path: PathBuf,
) -> Result<Arc<WebPkiServerVerifier>, FileError> {
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider.clone());
    verifier.build().map_err(|_| PemError::Authority.of(&path))
}

/// What a log says of a handshake that failed.
fn reason(error: &io::Error) -> String {
    match cause(error) {
        Some(Error::InvalidMessage(_)) => "the server does not speak TLS on this port".to_owned(),
        Some(error) => error.to_string(),
        None => format!("the handshake broke off: {error}"),
    }
}

/// What TLS has to do with a connection that broke, if anything.
pub fn reason_in(error: &dyn std::error::Error) -> Option<String> {
    let mut next = error.source();
    while let Some(error) = next {
        let broken = error.downcast_ref::<io::Error>();
        if let Some(error) = broken.and_then(cause) {
            return Some(error.to_string());
        }
        next = error.source();
    }
    None
}

/// Believes any certificate, and only sees to it that the server has its key.
#[derive(Debug)]
struct Credulous(Arc<CryptoProvider>);

impl ServerCertVerifier for Credulous {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
