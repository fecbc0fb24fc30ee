//! TLS towards upstreams: whom to believe, and who we are. Nothing falls back to plain.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::authorities::{Authorities, webpki_error};
use super::failure::cause;
use super::pem::{self, CertificateFiles, FileError, PemError};
use super::{HTTP1, HTTP2, provider};

/// Whose word is taken on a server's name.
#[derive(Debug)]
pub enum Trust {
    /// That of these authorities.
    Authorities(Authorities),
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
        let mut config = client_config(trust, identity)?;
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

/// TLS of a client that shows no certificate and believes `authorities`, or those of this machine. Unless it is for `https`, it
/// needs none.
///
/// # Errors
///
/// There are no `authorities`, and this machine has none that can be read.
pub fn https_client(authorities: Option<Authorities>, https: bool) -> io::Result<ClientConfig> {
    let none = || {
        io::Error::new(
            io::ErrorKind::NotFound,
            "no native root CA certificates found",
        )
    };
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let authorities = match authorities {
        Some(authorities) => authorities,
        None if https => Authorities::of_the_system().ok_or_else(none)?,
        // A verifier cannot be made without authorities. This one refuses every server.
        None => {
            let builder = builder.with_root_certificates(RootCertStore::empty());
            return Ok(builder.with_no_client_auth());
        }
    };
    let verifier = authorities.of_servers().map_err(io::Error::other)?;
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth())
}

/// Makes the TLS settings of a client with this trust, and perhaps a certificate of its own.
///
/// # Errors
///
/// A file holds no certificate or key, or an authority cannot be used.
pub fn client_config(
    trust: Trust,
    identity: Option<&CertificateFiles>,
) -> Result<ClientConfig, FileError> {
    let provider = provider();
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Authorities(authorities) => verifier(&authorities, &PathBuf::new())?,
        Trust::File(path) => verifier(&pem::authorities(&path)?, &path)?,
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
    authorities: &Authorities,
    path: &Path,
) -> Result<Arc<dyn ServerCertVerifier>, FileError> {
    let verifier = authorities.of_servers();
    verifier.map_err(|_| PemError::Authority.of(path))
}

/// What a log says of a handshake that failed.
fn reason(error: &io::Error) -> String {
    match cause(error) {
        Some(Error::InvalidMessage(_)) => "the server does not speak TLS on this port".to_owned(),
        Some(error) => explained(error),
        None => format!("the handshake broke off: {error}"),
    }
}

/// Names the remedy where the library's own text has none.
fn explained(error: &Error) -> String {
    match webpki_error(error) {
        Some(webpki::Error::CaUsedAsEndEntity) => {
            "the server's certificate is marked as an authority's (basicConstraints CA:TRUE): name its own file under `ca`, \
             or make it with CA:FALSE"
        }
        Some(webpki::Error::UnsupportedCertVersion) => {
            "the server's certificate has X.509 version 1: make it with version 3"
        }
        _ => return error.to_string(),
    }
    .to_owned()
}

/// What TLS has to do with a connection that broke, if anything.
pub fn reason_in(error: &dyn std::error::Error) -> Option<String> {
    let mut next = error.source();
    while let Some(error) = next {
        let broken = error.downcast_ref::<io::Error>();
        if let Some(error) = broken.and_then(cause) {
            return Some(explained(error));
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
