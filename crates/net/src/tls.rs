//! TLS with clients and upstreams: certificates of the gateway, and trust in certificates of peers.
//!
//! The TLS versions and cipher suites are the defaults of rustls: TLS 1.2 and 1.3, only with forward secrecy and authenticated encryption.
//! The content of a file is checked before it is used.

mod authorities;
mod client;
mod client_certificate;
mod failure;
mod names;
mod pem;
mod server;
mod shown;

pub use authorities::Authorities;
pub use client::{Offer, Trust, UpstreamTls, client_config, https_client, reason_in};
pub use client_certificate::ClientCertificate;
pub use failure::{HandshakeFailure, handshake_failure};
pub use pem::{CertificateFiles, FileError, authorities};
pub use server::{ClientCertificates, ServerFiles, ServerTls};
pub use shown::ShownCertificate;

use std::sync::Arc;

use rustls::CommonState;
use rustls::crypto::{CryptoProvider, aws_lc_rs};

/// The name of HTTP/2 in a handshake (ALPN).
const HTTP2: &[u8] = b"h2";
/// The name of HTTP/1 in a handshake (ALPN).
const HTTP1: &[u8] = b"http/1.1";

/// Whether both sides negotiated HTTP/2. Without a negotiated version the connection uses HTTP/1.
pub fn is_http2(connection: &CommonState) -> bool {
    connection.alpn_protocol() == Some(HTTP2)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}
