//! Where requests come in and where they go, and TLS on both sides.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::shape::{BlockOr, SingleOr};
use crate::value::{CertificateName, ClientCert, FilePath, Scalar};
use tidegate_yaml::Spanned;

/// Where requests come in.
pub(crate) type Listen = SingleOr<SocketAddr, BlockOr<Listener, SingleOr<SocketAddr, Listener>>>;

/// A listener that has settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listener {
    /// Where it is.
    pub(crate) address: Scalar<SocketAddr>,
    /// What protects it. Default: nothing.
    pub(crate) tls: Option<Spanned<ListenerTls>>,
}

/// TLS towards clients: versions 1.2 and 1.3, with HTTP/2 or HTTP/1.1 as the client prefers.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListenerTls {
    /// A file with the certificate that is shown, and those between it and its authority. Reread when it changes.
    pub(crate) cert: Option<Scalar<FilePath>>,
    /// A file with the key of that certificate.
    pub(crate) key: Option<Scalar<FilePath>>,
    /// Several of them instead, chosen by the name that a client asks for; the first is for all other names.
    pub(crate) certificates: Option<Spanned<Vec<Certificate>>>,
    /// A file with the authorities of which one must have issued the client's certificate. Default: clients show none.
    pub(crate) client_ca: Option<Scalar<FilePath>>,
    /// Whether a client may come without one: required or optional. Default: required.
    pub(crate) client_cert: Option<Scalar<ClientCert>>,
}

/// A certificate and its key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Certificate {
    /// A file with the certificate that is shown, and those between it and its authority. Reread when it changes.
    pub(crate) cert: Scalar<FilePath>,
    /// A file with the key of that certificate.
    pub(crate) key: Scalar<FilePath>,
}

/// TLS to servers. Never left out where it is asked for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpstreamTls {
    /// A file with the certificates of the only authorities that are trusted. Default: those of the system.
    pub(crate) ca: Option<Scalar<FilePath>>,
    /// A file with the certificate that the gateway shows. Default: none.
    pub(crate) cert: Option<Scalar<FilePath>>,
    /// A file with the key of that certificate.
    pub(crate) key: Option<Scalar<FilePath>>,
    /// The name that the servers' certificate must have. Default: each server's host.
    pub(crate) server_name: Option<Scalar<CertificateName>>,
    /// Whether the certificate must be right. Default: true.
    pub(crate) verify: Option<Scalar<bool>>,
}
