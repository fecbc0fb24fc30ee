//! TLS towards upstreams: whom to believe, and who we are. Nothing falls back to plain.

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
    // Without authorities it accepts no server.
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let authorities = match authorities {
        None if https => Some(Authorities::of_the_system().ok_or_else(none)?),
        authorities => authorities,
    };
    if let Some(authorities) = authorities {
        let verifier = server_verifier(Some(&authorities)).map_err(io::Error::other)?;
        config.dangerous().set_certificate_verifier(verifier);
    }
    Ok(config)
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
    let (authorities, path) = match trust {
        Trust::Authorities(authorities) => (Some(authorities), PathBuf::new()),
        Trust::File(path) => (Some(pem::authorities(&path)?), path),
        Trust::Anybody => (None, PathBuf::new()),
    };
    let verifier = server_verifier(authorities.as_ref());
    let verifier = verifier.map_err(|_| PemError::Authority.of(&path))?;
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        // The provider is our own choice and has all versions, so this never says no.
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
pub fn reason_in(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let sources = std::iter::successors(error.source(), |&error| error.source());
    let mut broken = sources.filter_map(|error| error.downcast_ref());
    broken.find_map(cause).map(explained)
}
