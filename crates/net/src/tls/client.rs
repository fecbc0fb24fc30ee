//! TLS with upstreams: trust, and the gateway's own certificate. A connection never falls back to plain text.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, Error, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::authorities::{Authorities, server_verifier, webpki_error};
use super::failure::cause;
use super::pem::{self, CertificateFiles, FileError, PemError};
use super::{HTTP1, HTTP2, provider};

/// The authorities that may have issued a server's certificate.
#[derive(Debug)]
pub enum Trust {
    /// These authorities.
    Authorities(Authorities),
    /// Only the authorities in a file.
    File(PathBuf),
    /// No verification: any certificate is accepted. The connection is still encrypted.
    Anybody,
}

/// The versions of HTTP that the gateway offers to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// HTTP/2 and HTTP/1. HTTP/2 is preferred.
    Any,
    /// Only HTTP/1.
    Http1,
}

/// The TLS settings for an upstream's servers.
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
    /// Makes settings with this trust. `identity` is the gateway's own certificate, if it has one. The server's certificate must have the
    /// name `name`. If `name` is `None`, it must have the name of the host.
    ///
    /// # Errors
    ///
    /// A file has no certificate or key, or an authority cannot be used.
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

    /// Makes a TLS handshake over a connection. The server's certificate must have the name `host`, or the name in the settings if the
    /// settings have a name.
    ///
    /// # Errors
    ///
    /// Returns the reason as text if the connection or the handshake failed.
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

/// Makes the TLS settings of a client without a certificate. The client trusts `authorities`, or the authorities of the machine if
/// `authorities` is `None`. If `https` is false, the machine may lack authorities.
///
/// # Errors
///
/// `authorities` is `None`, `https` is true, and this machine has no readable authorities.
pub fn https_client(authorities: Option<Authorities>, https: bool) -> io::Result<ClientConfig> {
    // With an empty root store the client accepts no server.
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let authorities = match authorities {
        None if https => Some(Authorities::of_the_system().ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                "no native root CA certificates found",
            )
        })?),
        authorities => authorities,
    };
    if let Some(authorities) = authorities {
        let verifier = server_verifier(Some(&authorities)).map_err(io::Error::other)?;
        config.dangerous().set_certificate_verifier(verifier);
    }
    Ok(config)
}

/// Makes the TLS settings of a client with this trust, and with its own certificate if `identity` is given.
///
/// # Errors
///
/// A file has no certificate or key, or an authority cannot be used.
pub fn client_config(
    trust: Trust,
    identity: Option<&CertificateFiles>,
) -> Result<ClientConfig, FileError> {
    let (authorities, path) = match trust {
        Trust::Authorities(authorities) => (Some(authorities), PathBuf::new()),
        Trust::File(path) => (Some(pem::authorities(&path)?), path),
        Trust::Anybody => (None, PathBuf::new()),
    };
    let verifier = server_verifier(authorities.as_ref());
    let verifier = verifier.map_err(|_| PemError::Authority.of(&path))?;
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        // The provider supports all versions, so this never fails.
        .map_err(|_| PemError::Authority.of(&path))?
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

/// Returns a description of a failed handshake for a log.
fn reason(error: &io::Error) -> String {
    match cause(error) {
        Some(Error::InvalidMessage(_)) => "the server does not speak TLS on this port".to_owned(),
        Some(error) => explained(error),
        None => format!("the handshake broke off: {error}"),
    }
}

/// Returns the text of an error, with a remedy for some errors.
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

/// Returns the TLS error that broke a connection, if TLS was the cause.
pub fn reason_in(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let sources = std::iter::successors(error.source(), |&error| error.source());
    let mut broken = sources.filter_map(|error| error.downcast_ref());
    broken.find_map(cause).map(explained)
}
