//! A real redis-server that speaks TLS.

use tempfile::TempDir;

use crate::{Authority, Certificate, Port, RedisServer};

/// A redis-server with two ports: one speaks TLS, the other is for the test itself.
#[derive(Debug)]
pub struct TlsRedis {
    server: RedisServer,
    port: Port,
    dir: TempDir,
}

impl TlsRedis {
    /// Starts a server that presents this certificate, and may require a certificate of its clients.
    pub async fn start(authority: &Authority, shown: &Certificate, asks_clients: bool) -> Self {
        let port = Port::reserve();
        let dir = TempDir::with_prefix("tidegate-tls-").unwrap();
        let (certificate, key) = shown.write(dir.path(), "server");
        let trusted = dir.path().join("authority.pem");
        std::fs::write(&trusted, authority.pem()).unwrap();
        let server = RedisServer::start_with(&[
            "--tls-port",
            &port.number().to_string(),
            "--tls-cert-file",
            certificate.to_str().unwrap(),
            "--tls-key-file",
            key.to_str().unwrap(),
            "--tls-ca-cert-file",
            trusted.to_str().unwrap(),
            "--tls-auth-clients",
            if asks_clients { "yes" } else { "no" },
        ])
        .await;
        Self { server, port, dir }
    }

    /// Returns the server, which the test reaches without TLS.
    pub fn server(&self) -> &RedisServer {
        &self.server
    }

    /// Returns a `rediss://` URL with this login, host and port. The login is empty or ends in `@`.
    pub fn url(&self, login: &str, host: &str) -> String {
        format!("rediss://{login}{host}:{}", self.port.number())
    }

    /// Returns the path of the file with the authority's certificate.
    pub fn authority_file(&self) -> String {
        let path = self.dir.path().join("authority.pem");
        path.to_str().unwrap().to_owned()
    }
}
