//! Certificates on disk, gateways that show them, and metrics as numbers.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tidegate_testkit::{Authority, Certificate, Client, Speaks, Upstream, body};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};

use crate::support::TestGateway;
pub(crate) use crate::support::asking::{LONG, sample, sample_becomes};

pub(crate) const BOTH: [&str; 2] = ["h2", "http/1.1"];
pub(crate) const HTTP1: [&str; 1] = ["http/1.1"];

/// Everything goes to the upstream, without a limit.
pub(crate) const ALL: &str = "routes: [{ path: /**, upstream: UPSTREAM }]";

/// A gateway in front of `upstream`, whose URL stands for `UPSTREAM` in the YAML.
pub(crate) async fn gateway(upstream: impl fmt::Display, yaml: &str) -> TestGateway {
    TestGateway::start(&filled(upstream, yaml)).await
}

/// A gateway in front of an upstream of one server, of which more is said.
pub(crate) async fn through(url: impl fmt::Display, more: &str) -> TestGateway {
    let group = format!("upstreams: {{ it: {{ servers: [\"{url}\"], {more} }} }}");
    gateway("it", &format!("{group}\n{ALL}")).await
}

fn filled(upstream: impl fmt::Display, yaml: &str) -> String {
    let yaml = yaml.replace("UPSTREAM", &format!("\"{upstream}\""));
    format!("log: {{ access: false }}\n{yaml}")
}

/// An authority, and a folder for what it issues.
pub(crate) struct Papers {
    pub(crate) authority: Authority,
    folder: TempDir,
}

impl Papers {
    /// With a certificate `own` for localhost.
    pub(crate) fn new() -> Self {
        let papers = Self {
            authority: Authority::new(),
            folder: tempfile::tempdir().unwrap(),
        };
        std::fs::write(papers.path("ca.pem"), papers.authority.pem()).unwrap();
        papers.issue("own", &["localhost", "127.0.0.1"]);
        papers
    }

    /// Issues a certificate for these names, as `NAME.pem` and `NAME.key`.
    pub(crate) fn issue(&self, file: &str, names: &[&str]) -> Certificate {
        let issued = self.authority.issue(names);
        issued.write(self.folder.path(), file);
        issued
    }

    /// As [`issue`](Self::issue), of one that ends so long after the epoch.
    pub(crate) fn issue_until(&self, file: &str, names: &[&str], since_epoch: Duration) {
        let issued = self.authority.issue_until(names, since_epoch);
        issued.write(self.folder.path(), file);
    }

    pub(crate) fn path(&self, file: &str) -> String {
        self.folder.path().join(file).to_str().unwrap().to_owned()
    }

    /// An upstream that shows this certificate and offers these protocols.
    pub(crate) fn upstream(&self, shown: &Certificate, protocols: &[&str]) -> Upstream {
        Upstream::ok_speaking(Speaks::Tls(self.authority.server(shown, protocols)))
    }

    /// A gateway whose upstream is told by `tls` whom to believe, whatever else is said of it.
    pub(crate) async fn believing(&self, url: impl fmt::Display, more: &str) -> TestGateway {
        let ca = self.path("ca.pem");
        let tls = format!("{{ ca: \"{ca}\", {more} }}");
        through(url, &format!("tls: {tls}")).await
    }

    /// A gateway that shows `own`, with more settings of TLS.
    pub(crate) async fn gateway(
        &self,
        upstream: impl fmt::Display,
        more: &str,
        yaml: &str,
    ) -> TestGateway {
        let (cert, key) = (self.path("own.pem"), self.path("own.key"));
        let tls = format!("{{ cert: \"{cert}\", key: \"{key}\", {more} }}");
        let listen = format!("{{ address: 127.0.0.1:0, tls: {tls} }}");
        TestGateway::start_listening(&listen, &filled(upstream, yaml)).await
    }

    /// A client of HTTP/1.1 that believes the authority.
    pub(crate) fn http1(&self, gateway: &TestGateway) -> Client {
        let config = self.authority.client(&HTTP1);
        Client::new(gateway.address).secured(config, "localhost")
    }

    /// The same of HTTP/2.
    pub(crate) fn http2(&self, gateway: &TestGateway) -> Client {
        let config = self.authority.client(&BOTH);
        Client::h2(gateway.address).secured(config, "localhost")
    }
}

/// A connection with TLS, or why there is none.
pub(crate) async fn handshake(
    address: SocketAddr,
    config: Arc<ClientConfig>,
    name: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from(name.to_owned()).unwrap();
    TlsConnector::from(config).connect(name, stream).await
}

/// The certificate that a connection was shown.
pub(crate) fn shown(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    let (_, connection) = stream.get_ref();
    connection.peer_certificates().unwrap()[0]
        .clone()
        .into_owned()
}

/// A certificate as it is shown.
pub(crate) fn der(certificate: &Certificate) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(certificate.pem.as_bytes()).unwrap()
}

/// The line of handshakes that failed for a reason.
pub(crate) fn failed(reason: &str) -> String {
    format!("tidegate_tls_handshakes_failed_total{{reason=\"{reason}\"}}")
}

/// An upstream that switches to `websocket` and gives back what comes.
pub(crate) fn tunnelling(speaks: Speaks) -> Upstream {
    Upstream::speaking(speaks, |mut request: Request<_>| async move {
        let key = request.headers().get("sec-websocket-key").cloned();
        let upgraded = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let (mut reader, mut writer) = tokio::io::split(TokioIo::new(upgraded.await.unwrap()));
            tokio::io::copy(&mut reader, &mut writer).await.ok();
            writer.shutdown().await.ok();
        });
        let answer = Response::builder()
            .status(101)
            .header("connection", "upgrade")
            .header("upgrade", "WebSocket")
            .header("sec-websocket-accept", key.unwrap());
        answer.body(body::empty()).unwrap()
    })
}

/// What a client of WebSocket sends first; the key is only given back by [`tunnelling`].
pub(crate) const SWITCH: &str = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Protocol: chat\r\n\r\n";

/// Asks for a switch, with more bytes behind it, and gives the head of the answer.
pub(crate) async fn switch<S>(stream: &mut S, more: &str) -> String
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let asked = format!("{SWITCH}{more}");
    stream.write_all(asked.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = timeout(LONG, stream.read_u8()).await.unwrap();
        head.push(byte.unwrap_or_else(|error| panic!("{error} after {head:?}")));
    }
    String::from_utf8(head).unwrap()
}

/// Sends words through a tunnel, which come back.
pub(crate) async fn echoes<S>(stream: &mut S, words: &str)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    stream.write_all(words.as_bytes()).await.unwrap();
    let mut heard = vec![0; words.len()];
    timeout(LONG, stream.read_exact(&mut heard))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(heard, words.as_bytes());
}
