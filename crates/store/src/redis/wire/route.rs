//! How to come to one server.

use std::time::Duration;

use super::tls::Tls;
use super::url::{Login, Topology};

/// How to come to one server.
#[derive(Clone, Debug)]
pub(in crate::redis) struct Route {
    pub(in crate::redis) to: Topology,
    pub(in crate::redis) login: Login,
    pub(in crate::redis) database: Option<u8>,
    pub(in crate::redis) tls: Option<Tls>,
    /// The name in the server's certificate, if it is another than its host.
    pub(in crate::redis) tls_name: Option<String>,
    pub(in crate::redis) timeout: Duration,
}
