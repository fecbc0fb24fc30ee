//! Certificates and keys in PEM files.

use std::io;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::authorities::{Authorities, webpki_error};
use super::provider;
use crate::file_error;

/// The files of one certificate chain and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, followed by the intermediate certificates.
    pub certificate: PathBuf,
    /// The private key of the first certificate in that file.
    pub key: PathBuf,
}

/// A file that cannot be used, and the reason.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {why}", path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub why: PemError,
}

/// The reason why a file cannot be used, as a text that follows its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PemError {
    #[error("cannot be read: {}", file_error::reason(*.0))]
    Unreadable(io::ErrorKind),
    #[error("holds no readable certificate (PEM)")]
    Certificate,
    #[error("holds no readable private key (PEM, not encrypted)")]
    Key,
    #[error(
        "holds a private key that is not supported: allowed are RSA with 2048 to 8192 bits, ECDSA with P-256, P-384 or P-521, and Ed25519"
    )]
    UnsupportedKey,
    #[error("holds a certificate of X.509 version 1; version 3 is needed")]
    OldCertificate,
    #[error("holds a key that does not belong to the certificate")]
    Mismatch,
    #[error("holds no readable certificate of an authority (PEM)")]
    Authority,
}

impl CertificateFiles {
    /// Reads both files, and checks that they belong together.
    pub(super) fn load(&self) -> Result<CertifiedKey, FileError> {
        let chain = certificates(&self.certificate)?;
        let chain = chain.ok_or_else(|| PemError::Certificate.of(&self.certificate))?;
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key)?);
        let key = key.map_err(|_| PemError::Key.of(&self.key))?;
        CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => PemError::Mismatch.of(&self.key),
            error if is_old(&error) => PemError::OldCertificate.of(&self.certificate),
            rustls::Error::InvalidCertificate(_) => PemError::Certificate.of(&self.certificate),
            _ => PemError::UnsupportedKey.of(&self.key),
        })
    }
}

/// Whether an error shows that the X.509 version of a certificate is too old for TLS.
pub(super) fn is_old(error: &rustls::Error) -> bool {
    matches!(
        webpki_error(error),
        Some(webpki::Error::UnsupportedCertVersion)
    )
}

/// Reads the certificate authorities of a file.
///
/// # Errors
///
/// The file cannot be read, has no certificate, or has a broken certificate.
pub fn authorities(path: &Path) -> Result<Authorities, FileError> {
    let authorities = certificates(path)?.and_then(Authorities::listed);
    authorities.ok_or_else(|| PemError::Authority.of(path))
}

/// Reads the certificates of a file. Returns `None` if the file has no certificate, or a broken certificate.
pub(super) fn certificates(path: &Path) -> Result<Option<Vec<CertificateDer<'static>>>, FileError> {
    let pem = read(path)?;
    let list: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    Ok(list.ok().filter(|list| !list.is_empty()))
}

fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    let unreadable = |kind| PemError::Unreadable(kind).of(path);
    let data = std::fs::metadata(path).map_err(|error| unreadable(error.kind()))?;
    // A named pipe is refused, because opening it would wait for its other end.
    if !data.is_file() && !data.is_dir() {
        return Err(unreadable(io::ErrorKind::Unsupported));
    }
    std::fs::read(path).map_err(|error| unreadable(error.kind()))
}

impl PemError {
    pub(super) fn of(self, path: &Path) -> FileError {
        FileError {
            path: path.to_owned(),
            why: self,
        }
    }
}
