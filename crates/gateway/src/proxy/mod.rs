//! From an admitted request to an upstream's answer.

mod connection;
mod forward;
mod headers;
mod pool;
mod request_body;
mod server;
mod trouble;
mod tunnel;
mod upgrade;
mod upstream_body;

pub(crate) use forward::{Forward, Forwarded, Forwarding};
pub(crate) use headers::X_REQUEST_ID;
pub(crate) use pool::{PoolTimeouts, Upstream};
pub(crate) use tunnel::Tunnel;
pub(crate) use upstream_body::UpstreamBody;
