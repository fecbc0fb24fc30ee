//! TLS to Redis: whom to trust, and who we are. Names of hosts are always verified, and nothing falls back to plain.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// Why no connection could be made with these files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTls {
    /// The authorities are none.
    #[error("holds no readable certificate of an authority (PEM)")]
    Authority,
    /// The client's certificate is none.
    #[error("holds no readable certificate (PEM)")]
    Certificate,
    /// The client's key is none.
    #[error("holds no readable private key (PEM, not encrypted)")]
    Key,
    /// The key is another one than the certificate's.
    #[error("holds a key that does not belong to the certificate")]
    Mismatch,
    /// No file was named, and the system has no authorities.
    #[error("this system has no certificate authorities: name a file with those of Redis")]
    NoAuthorities,
}

/// Whom to trust, and who we are.
#[derive(Clone)]
pub struct Tls(pub(crate) Arc<ClientConfig>);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Trusts these authorities alone, or, without any, those of the system; shows a certificate, if there is one, with
    /// its key. All of it in PEM.
    pub fn new(
        authorities: Option<&[u8]>,
        identity: Option<(&[u8], &[u8])>,
    ) -> Result<Self, InvalidTls> {
        let roots = match authorities {
            Some(pem) => listed(pem)?,
            None => of_the_system()?,
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let versions =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        // The provider is our own choice and has all versions.
        let builder = versions
            .map_err(|_| InvalidTls::Mismatch)?
            .with_root_certificates(roots);
        let Some((certificate, key)) = identity else {
            return Ok(Self(Arc::new(builder.with_no_client_auth())));
        };
        let chain = certificates(certificate).ok_or(InvalidTls::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| InvalidTls::Key)?;
        let config = builder.with_client_auth_cert(chain, key);
        config
            .map(|config| Self(Arc::new(config)))
            .map_err(|_| InvalidTls::Mismatch)
    }
}

fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .ok()?;
    (!found.is_empty()).then_some(found)
}

fn listed(pem: &[u8]) -> Result<RootCertStore, InvalidTls> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem).ok_or(InvalidTls::Authority)? {
        roots.add(certificate).map_err(|_| InvalidTls::Authority)?;
    }
    Ok(roots)
}

fn of_the_system() -> Result<RootCertStore, InvalidTls> {
    let mut roots = RootCertStore::empty();
    // A few of a system's authorities may be too old to be understood.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        Err(InvalidTls::NoAuthorities)
    } else {
        Ok(roots)
    }
}

/// What a failed handshake means to whoever has to mend it, by the words in which rustls and fred tell it.
pub(crate) fn reason(details: &str) -> Option<&'static str> {
    const REASONS: [(&str, &str); 10] = [
        (
            "UnknownIssuer",
            "no authority that is trusted here issued the server's certificate",
        ),
        // An authority of the same name, but another one.
        (
            "BadSignature",
            "no authority that is trusted here issued the server's certificate",
        ),
        (
            "NotValidForName",
            "the server's certificate is for another name",
        ),
        ("Expired", "the server's certificate has expired"),
        ("NotValidYet", "the server's certificate is not valid yet"),
        (
            "InvalidCertificate",
            "the server's certificate is not accepted",
        ),
        (
            "AlertReceived",
            "the server does not accept this client's certificate, or wants one",
        ),
        (
            "InvalidMessage",
            "the server does not speak TLS on this port",
        ),
        (
            "InvalidDnsName",
            "the server's name cannot stand in a certificate",
        ),
        (
            "tls handshake eof",
            "the server does not speak TLS on this port, or ended the handshake",
        ),
    ];
    let found = REASONS.iter().find(|(word, _)| details.contains(word));
    found.map(|(_, reason)| *reason)
}
