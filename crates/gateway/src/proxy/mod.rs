//! From an admitted request to an upstream's answer.

mod edits;
mod forward;
mod headers;
mod read_headers;
mod received;
mod request_body;
mod trouble;
mod tunnel;
mod upgrade;
mod upstream_body;

pub(crate) use forward::{Forward, ForwardTimeouts, Forwarded, Forwarding};
pub(crate) use headers::X_REQUEST_ID;
pub(crate) use read_headers::ReadHeaders;
pub(crate) use tunnel::Tunnel;
pub(crate) use upstream_body::UpstreamBody;
