//! TLS towards clients: the settings of one listener, made of its files, and made anew when these change.

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

/// What a listener shows and asks for.
#[derive(Debug)]
pub struct ServerFiles {
    /// At least one; the first is for names that none has.
    pub certificates: Vec<CertificateFiles>,
    /// Whether clients show one as well.
    pub clients: Option<ClientCertificates>,
}

/// What clients show.
#[derive(Debug)]
pub struct ClientCertificates {
    /// The authorities of which one must have issued it.
    pub authorities: PathBuf,
    /// Whether a client without one is refused.
    pub required: bool,
}

/// TLS of one listener. Connections keep the settings that they began with.
pub struct ServerTls {
    files: ServerFiles,
    // As the files were just before they were read last.
    stamps: Mutex<Vec<Option<Stamp>>>,
    settings: ArcSwap<Settings>,
}

/// What the files make.
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
    /// Reads the files, or says which one is of no use.
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

    /// Reads the files again, if one has changed. If one is of no use, all of them stay as they were.
    ///
    /// New settings know nothing of old sessions. Where clients show certificates there are none: see [`settings`].
    ///
    /// # Errors
    ///
    /// A changed file cannot be used. The certificates before stay.
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

    /// The files that the settings are made of.
    pub const fn files(&self) -> &ServerFiles {
        &self.files
    }

    /// What accepts the next connection, with the settings of now.
    pub fn acceptor(&self) -> TlsAcceptor {
        self.settings.load().config.clone().into()
    }

    /// The certificates that it shows, in the order of its files.
    pub fn shown(&self) -> Vec<ShownCertificate> {
        self.settings.load().shown.clone()
    }
}

impl ServerFiles {
    /// The path of every file.
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
    // The provider is our own choice and has all versions, so this never says no.
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
    // The strongest suite that both know, whatever a client names first.
    config.ignore_client_order = true;
    if files.clients.is_some() {
        // A session that is resumed keeps the client that it began with: nobody looks at the certificate again, which may
        // have ended, or be of an authority that is gone. So every handshake is a whole one.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    } else if let Ok(tickets) = Ticketer::new() {
        // Clients that come back are spared a handshake, and we are spared to remember them.
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
