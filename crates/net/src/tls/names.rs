//! Chooses the certificate for a client by the server name in the handshake (SNI).

use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::shown::{names_in, normal};

/// The certificates of a listener, by the names in them.
///
/// A client that sends no name, or a name without a certificate, gets the first certificate whose key type the client supports.
#[derive(Debug)]
pub(super) struct Names {
    all: Vec<Arc<CertifiedKey>>,
    by_name: HashMap<String, Vec<Arc<CertifiedKey>>>,
}

impl Names {
    /// Indexes these certificates. There must be at least one.
    pub(super) fn new(certificates: Vec<CertifiedKey>) -> Self {
        let all: Vec<_> = certificates.into_iter().map(Arc::new).collect();
        let mut by_name: HashMap<String, Vec<_>> = HashMap::new();
        for key in &all {
            for name in names_in(key) {
                by_name.entry(name).or_default().push(key.clone());
            }
        }
        Self { all, by_name }
    }

    /// Returns the certificates for a name: the certificates with this name, or, if there are none, the certificates with a wildcard for
    /// its first label. For an unknown name or no name, returns all certificates.
    fn of(&self, name: Option<&str>) -> &[Arc<CertifiedKey>] {
        let Some(name) = name.map(normal) else {
            return &self.all;
        };
        let keys = self.by_name.get(&name).or_else(|| {
            let (_, domain) = name.split_once('.')?;
            self.by_name.get(&format!("*.{domain}"))
        });
        keys.map_or(&self.all, |keys| keys)
    }
}

impl ResolvesServerCert for Names {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let keys = self.of(hello.server_name());
        // A name may have several certificates. The first certificate whose key type the client supports is chosen.
        let signable = keys.iter().find(|key| {
            let scheme = key.key.choose_scheme(hello.signature_schemes());
            scheme.is_some()
        });
        signable.or(keys.first()).cloned()
    }
}
