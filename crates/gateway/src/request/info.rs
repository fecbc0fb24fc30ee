//! Facts of a request that all layers read.

use tidegate_server::ConnectionInfo;

use super::problem::Problem;
use tidegate_telemetry::RequestId;
use tidegate_telemetry::traces::TraceContext;

/// What is known of a request beside its head: the one extension that the gateway's own parts add to it. The limits have
/// the peer and more.
#[derive(Clone, Debug)]
pub(crate) struct RequestInfo {
    /// The connection that it came on.
    pub(crate) connection: ConnectionInfo,
    pub(crate) request_id: RequestId,
    /// Why no route takes it, if none does.
    pub(crate) problem: Option<Problem>,
    /// The trace that it belongs to, if requests are traced.
    pub(crate) trace: Option<TraceContext>,
}
