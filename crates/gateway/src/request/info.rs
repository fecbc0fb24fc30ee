//! Data about a request that forwarding reads.

use tidegate_server::ConnectionInfo;
use tidegate_telemetry::RequestId;
use tidegate_telemetry::traces::TraceContext;

/// The connection of a request, and its IDs in logs and traces.
#[derive(Clone, Debug)]
pub(crate) struct RequestInfo {
    /// The connection of the request.
    pub(crate) connection: ConnectionInfo,
    pub(crate) request_id: RequestId,
    /// The trace of the request, if requests are traced.
    pub(crate) trace: Option<TraceContext>,
}
