//! TLS between tests and gateways: the certificates that each side presents and trusts.

use std::sync::Arc;

use tokio_rustls::rustls::{
    ALL_VERSIONS, ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
    sign::{CertifiedKey, SingleCertAndKey},
};

use super::{Authority, Certificate};

impl Authority {
    /// Returns the settings of a server that presents this certificate and offers these protocols (ALPN).
    pub fn server(&self, shown: &Certificate, protocols: &[&str]) -> Arc<ServerConfig> {
        self.serving(shown, protocols, false)
    }

    /// Returns settings like [`server`](Self::server) that accept only clients with a certificate of this authority.
    pub fn server_asking(&self, shown: &Certificate, protocols: &[&str]) -> Arc<ServerConfig> {
        self.serving(shown, protocols, true)
    }

    fn serving(&self, shown: &Certificate, protocols: &[&str], asks: bool) -> Arc<ServerConfig> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if asks {
            let roots = Arc::new(self.roots());
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let (chain, key) = shown.der();
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = named(protocols);
        Arc::new(config)
    }

    /// Returns the settings of a client that trusts this authority alone and offers these protocols.
    pub fn client(&self, protocols: &[&str]) -> Arc<ClientConfig> {
        self.asking(None, protocols, ALL_VERSIONS)
    }

    /// Returns settings like [`client`](Self::client), for a client that presents a certificate of its own.
    pub fn client_showing(&self, own: &Certificate, protocols: &[&str]) -> Arc<ClientConfig> {
        self.asking(Some(own), protocols, ALL_VERSIONS)
    }

    /// Returns the settings of a client that speaks one version of TLS, and may present a certificate.
    pub fn client_of_version(
        &self,
        own: Option<&Certificate>,
        protocols: &[&str],
        version: &'static SupportedProtocolVersion,
    ) -> Arc<ClientConfig> {
        self.asking(own, protocols, &[version])
    }

    fn asking(
        &self,
        own: Option<&Certificate>,
        protocols: &[&str],
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(self.roots());
        let mut config = match own.map(Certificate::der) {
            Some((chain, key)) => {
                // The certificate is not checked, because a test may present a wrong one.
                let key = aws_lc_rs::sign::any_supported_type(&key).unwrap();
                let shown = CertifiedKey::new(chain, key);
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(shown)))
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = named(protocols);
        Arc::new(config)
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(certificate(self.pem())).unwrap();
        roots
    }
}

impl Certificate {
    fn der(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap();
        (vec![certificate(&self.pem)], key)
    }
}

fn certificate(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

fn named(protocols: &[&str]) -> Vec<Vec<u8>> {
    protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect()
}
