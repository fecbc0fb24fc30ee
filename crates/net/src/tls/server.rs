//! TLS towards clients: the settings of one listener, made from its files, and made again when the files change.

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
    /// At least one. The first is also for names without a certificate.
    pub certificates: Vec<CertificateFiles>,
    /// The settings for certificates of clients; none: clients show none.
    pub clients: Option<ClientCertificates>,
}

/// Settings for certificates of clients.
#[derive(Debug)]
pub struct ClientCertificates {
    /// The file of the authorities. One of them must have issued the certificate.
    pub authorities: PathBuf,
    /// Whether a client without a certificate is refused.
    pub required: bool,
}

/// TLS of one listener. Connections keep the settings that they began with.
pub struct ServerTls {
    files: ServerFiles,
    // The stamps of the files just before their last read.
    stamps: Mutex<Vec<Option<Stamp>>>,
    settings: ArcSwap<Settings>,
}

/// The settings that the files result in.
struct Settings {
    config: Arc<ServerConfig>,
    /// In the order of the files.
    shown: Vec<ShownCertificate>,
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ServerTls").field(&self.files).finish()
    }
}

impl ServerTls {
    /// Reads the files, or returns the file that cannot be used.
    ///
    /// # Errors
    ///
    /// A file cannot be read, holds no certificate or key, or they do not belong together.
    pub fn load(files: ServerFiles) -> Result<Self, FileError> {
        Ok(Self {
            stamps: Mutex::new(files.stamps()),
            settings: ArcSwap::from_pointee(settings(&files)?),
            files,
        })
    }

    /// Reads the files again, if one has changed. If one cannot be used, the settings stay.
    ///
    /// New settings resume no old sessions. If clients show certificates, there are no sessions: see [`settings`].
    ///
    /// # Errors
    ///
    /// A changed file cannot be used. The previous certificates stay.
    pub fn renew(&self) -> Option<Result<(), FileError>> {
        let found = self.files.stamps();
        {
            let mut stamps = self.stamps.lock();
            if *stamps == found {
                return None;
            }
            *stamps = found;
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

    /// Returns the certificates that it shows, in the order of its files.
    pub fn shown(&self) -> Vec<ShownCertificate> {
        self.settings.load().shown.clone()
    }
}

impl ServerFiles {
    /// Returns the path of every file.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let shown = self.certificates.iter();
        let shown = shown.flat_map(|files| [&*files.certificate, &*files.key]);
        let clients = self.clients.iter();
        shown.chain(clients.map(|clients| &*clients.authorities))
    }

    fn stamps(&self) -> Vec<Option<Stamp>> {
        self.paths().map(Stamp::of).collect()
    }
}

fn settings(files: &ServerFiles) -> Result<Settings, FileError> {
    let keys = files.certificates.iter().map(CertificateFiles::load);
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    let shown = keys.iter().map(ShownCertificate::of).collect();
    let first = files.certificates.first();
    // Our provider has all versions, so this never fails.
    let unusable = |_| {
        let first = first.map_or(Path::new(""), |files| &files.certificate);
        PemError::Certificate.of(first)
    };
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_client_cert_verifier(verifier(files.clients.as_ref())?)
        .with_cert_resolver(Arc::new(Names::new(keys)));
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    // Chooses the strongest common suite, not the client's first.
    config.ignore_client_order = true;
    if files.clients.is_some() {
        // A resumed session keeps its client without a new check. But the certificate may have ended, or its authority may be
        // gone. So every handshake is a whole one.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    } else if let Ok(tickets) = Ticketer::new() {
        // Tickets spare returning clients a handshake, and the gateway a store of sessions.
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
