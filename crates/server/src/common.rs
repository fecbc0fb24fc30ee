//! The parts that all connections of a server share.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::connection_limit::ConnectionLimit;
use crate::metrics::ServerMetrics;
use crate::offenders::Offenders;
use crate::overload::Overload;

pub(crate) struct Common<S> {
    pub(crate) service: Arc<ArcSwap<S>>,
    pub(crate) metrics: Arc<ServerMetrics>,
    pub(crate) overload: Arc<Overload>,
    /// The bytes of the answer to a refused connection without TLS.
    pub(crate) refusal: Vec<u8>,
    /// Becomes true when the server is to stop.
    pub(crate) stop: watch::Receiver<bool>,
    /// Addresses whose connections are closed unread for a short time.
    pub(crate) offenders: Offenders,
    pub(crate) connections: Arc<ConnectionLimit>,
    pub(crate) handshakes: Arc<ConnectionLimit>,
}
