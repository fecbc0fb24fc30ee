//! Certificates and keys in files, in PEM.

use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::provider;

/// The files of one certificate chain and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, followed by those between it and its authority.
    pub certificate: PathBuf,
    /// The private key of the first certificate.
    pub key: PathBuf,
}

/// A file that cannot be used, and why.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: Unusable,
}

/// What is wrong with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    #[error("this file cannot be read")]
    Unreadable,
    #[error("no certificate can be read from it (PEM)")]
    Certificate,
    #[error("no private key can be read from it (PEM, not encrypted)")]
    Key,
    #[error("this key is not the certificate's")]
    Mismatch,
    #[error("no certificate of an authority can be read from it (PEM)")]
    Authority,
}

impl CertificateFiles {
    /// Reads both, and sees to it that they belong together.
    pub(super) fn load(&self) -> Result<CertifiedKey, FileError> {
        let chain = certificates(&self.certificate)?;
        let chain = chain.ok_or_else(|| Unusable::Certificate.of(&self.certificate))?;
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key)?);
        let key = key.map_err(|_| Unusable::Key.of(&self.key))?;
        CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => Unusable::Mismatch.of(&self.key),
            rustls::Error::InvalidCertificate(_) => Unusable::Certificate.of(&self.certificate),
            _ => Unusable::Key.of(&self.key),
        })
    }
}

/// Reads the certificate authorities of a file.
///
/// # Errors
///
/// If the file cannot be read, has no certificate, or has one that is broken.
pub fn authorities(path: &Path) -> Result<RootCertStore, FileError> {
    let refused = || Unusable::Authority.of(path);
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)?.ok_or_else(refused)? {
        roots.add(certificate).map_err(|_| refused())?;
    }
    Ok(roots)
}

/// The certificates of a file; none if it holds none, or one that is broken.
fn certificates(path: &Path) -> Result<Option<Vec<CertificateDer<'static>>>, FileError> {
    let pem = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    Ok(found.ok().filter(|found| !found.is_empty()))
}

fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    // Whoever opens a pipe waits for its other end.
    let is_file = std::fs::metadata(path).is_ok_and(|data| data.is_file());
    let content = is_file.then(|| std::fs::read(path).ok()).flatten();
    content.ok_or_else(|| Unusable::Unreadable.of(path))
}

impl Unusable {
    pub(super) fn of(self, path: &Path) -> FileError {
        FileError {
            path: path.to_owned(),
            why: self,
        }
    }
}
