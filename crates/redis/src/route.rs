//! How to come to one server.

use std::time::Duration;

use super::tls::Tls;
use super::url::{Login, Topology};

/// How to come to one server.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) to: Topology,
    pub(crate) login: Login,
    pub(crate) database: Option<u8>,
    pub(crate) tls: Option<Tls>,
    /// The name in the server's certificate, if it is another than its host.
    pub(crate) tls_name: Option<String>,
    pub(crate) timeout: Duration,
}
