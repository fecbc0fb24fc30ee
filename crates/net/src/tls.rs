//! TLS towards clients and upstreams: certificates of the gateway, and trust in certificates of others.
//!
//! Versions and cipher suites are the library's own choice: TLS 1.2 and 1.3, with forward secrecy and authenticated encryption
//! only. The content of a file is checked before it is used.

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

/// The protocols that are offered in a handshake (ALPN), the better first.
const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// Whether both sides agreed on HTTP/2. Without an agreement it is HTTP/1.
pub fn is_http2(connection: &CommonState) -> bool {
    connection.alpn_protocol() == Some(HTTP2)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}
