//! TLS with clients: the settings of one listener. The gateway makes the settings from files, and makes them again when a file changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, NoServerSessionStorage};
use tokio_rustls::TlsAcceptor;

use super::names::Names;
use super::pem::{self, CertificateFiles, FileError, PemError};
use super::shown::ShownCertificate;
use super::{HTTP1, HTTP2, provider};
use crate::file_stamp::Stamp;

/// The files of a listener: its own certificates, and the authorities of its clients.
#[derive(Debug)]
pub struct ServerFiles {
    /// The certificates, at least one. For a name without a certificate, a client gets the first certificate whose key type the client
    /// supports.
    pub certificates: Vec<CertificateFiles>,
    /// The settings for certificates of clients. `None` if the listener requests no certificate.
    pub clients: Option<ClientCertificates>,
}

/// Settings for certificates of clients.
#[derive(Debug)]
pub struct ClientCertificates {
    /// The file of the authorities that may issue the certificates.
    pub authorities: PathBuf,
    /// Whether a client without a certificate is refused.
    pub required: bool,
}

/// TLS of one listener. A connection keeps the settings with which it began.
pub struct ServerTls {
    files: ServerFiles,
    // The stamps of the files, taken just before their last read.
    stamps: Mutex<Vec<Option<Stamp>>>,
    settings: ArcSwap<Settings>,
}

/// The settings that the files contain.
struct Settings {
    config: Arc<ServerConfig>,
    /// The certificates, in the order of the files.
    shown: Vec<ShownCertificate>,
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ServerTls").field(&self.files).finish()
    }
}

impl ServerTls {
    /// Reads the files, and makes the settings.
    ///
    /// # Errors
    ///
    /// A file cannot be read, has no certificate or key, or has a key that does not belong to the certificate. The error contains the path.
    pub fn load(files: ServerFiles) -> Result<Self, FileError> {
        Ok(Self {
            stamps: Mutex::new(files.stamps()),
            settings: ArcSwap::from_pointee(settings(&files)?),
            files,
        })
    }

    /// Reads the files again if a file has changed. If a file cannot be used, the old settings remain in use. Returns `None` if no file has
    /// changed.
    ///
    /// After a change, clients cannot resume TLS sessions of the old settings. If the listener requests certificates of clients, no session
    /// is ever resumed (see [`settings`]).
    ///
    /// # Errors
    ///
    /// A file cannot be used.
    pub fn renew(&self) -> Option<Result<(), FileError>> {
        let current = self.files.stamps();
        {
            let mut stamps = self.stamps.lock();
            if *stamps == current {
                return None;
            }
            *stamps = current;
        }
        let renewed = settings(&self.files);
        Some(renewed.map(|settings| self.settings.store(Arc::new(settings))))
    }

    /// Returns the files that the settings are made from.
    pub const fn files(&self) -> &ServerFiles {
        &self.files
    }

    /// Returns an acceptor for the next connection, with the current settings.
    pub fn acceptor(&self) -> TlsAcceptor {
        self.settings.load().config.clone().into()
    }

    /// Returns the certificates of this listener, in the order of its files.
    pub fn shown(&self) -> Vec<ShownCertificate> {
        self.settings.load().shown.clone()
    }
}

impl ServerFiles {
    /// Returns the path of every file.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.certificates
            .iter()
            .flat_map(|files| [&*files.certificate, &*files.key])
            .chain(self.clients.iter().map(|clients| &*clients.authorities))
    }

    fn stamps(&self) -> Vec<Option<Stamp>> {
        self.paths().map(Stamp::of).collect()
    }
}

fn settings(files: &ServerFiles) -> Result<Settings, FileError> {
    let keys = files.certificates.iter().map(CertificateFiles::load);
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    let shown = keys.iter().map(ShownCertificate::of).collect();
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        // The provider supports all versions, so this never fails.
        .map_err(|_| {
            let first = files.certificates.first();
            let path = first.map_or(Path::new(""), |files| &files.certificate);
            PemError::Certificate.of(path)
        })?
        .with_client_cert_verifier(verifier(files.clients.as_ref())?)
        .with_cert_resolver(Arc::new(Names::new(keys)));
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    // The order of the server's cipher suites decides, so the strongest common cipher suite is chosen.
    config.ignore_client_order = true;
    if files.clients.is_some() {
        // A resumed session would accept its client without a new check. But the certificate may have expired in the meantime, or its
        // authority may no longer be trusted. So sessions are not resumed.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    } else if let Ok(tickets) = Ticketer::new() {
        // With tickets, returning clients can resume sessions although the gateway does not store sessions.
        config.ticketer = tickets;
    }
    Ok(Settings {
        config: Arc::new(config),
        shown,
    })
}

fn verifier(
    clients: Option<&ClientCertificates>,
) -> Result<Arc<dyn ClientCertVerifier>, FileError> {
    let Some(clients) = clients else {
        return Ok(Arc::new(NoClientAuth));
    };
    let path = &clients.authorities;
    let verifier = pem::authorities(path)?.of_clients(clients.required);
    verifier.map_err(|_| PemError::Authority.of(path))
}
