//! From an admitted request to an upstream's answer.

mod balance;
mod connection;
mod edits;
mod forward;
mod headers;
mod health;
mod idle;
mod keeper;
mod members;
mod patience;
mod places;
mod pool;
mod reach;
mod read_headers;
mod received;
mod replay;
mod request_body;
mod retries;
mod server;
mod stream_limit;
mod trouble;
mod tunnel;
mod upgrade;
mod upstream_body;

pub(crate) use forward::{Forward, Forwarded, Forwarding};
pub(crate) use headers::{X_REQUEST_ID, address};
pub(crate) use pool::{PoolTimeouts, Upstream};
pub(crate) use reach::reach;
pub(crate) use read_headers::ReadHeaders;
pub(crate) use retries::Retries;
pub(crate) use tunnel::Tunnel;
pub(crate) use upstream_body::UpstreamBody;
