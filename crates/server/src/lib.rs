//! Serves client connections: accepts and counts them, reads their first bytes, serves HTTP/1 and HTTP/2, and drains them at a stop.
//!
//! Start reading at [`Server`], then `acceptor.rs` (one connection from its first byte) and `connection.rs` (its requests). [`Service`]
//! answers requests; [`ConnectionSettings`] apply to all connections. Rate limits, upstreams and the configuration file are in other
//! crates.

mod acceptor;
mod activity;
mod admin_connections;
mod after_poll;
mod charging;
mod client_body;
mod client_io;
mod client_stream;
mod common;
mod connection;
mod connection_info;
mod connection_limit;
mod drain;
mod drive;
mod flag;
mod frames;
mod handshake;
mod heads;
mod metrics;
mod offenders;
mod overload;
mod refusal;
mod request_lines;
mod server;
mod service;
mod settings;
mod stream;
mod untrusted;

pub use activity::RequestGuard;
pub use admin_connections::{AdminConnection, AdminConnections, AdminStream};
pub use after_poll::spawn_after_poll;
pub use client_body::ClientBody;
pub use connection_info::ConnectionInfo;
pub use metrics::{ConnectionRefusal, ServerMetrics};
pub use overload::{Overload, Pressure, watch_memory};
pub use server::{Listener, Server, ServerParts};
pub use service::{BoxError, Dropped, RefusedHead, ResponseBody, Service, UnparsedHead};
pub use settings::{ConnectionSettings, ListenerName, Timeouts};
pub use untrusted::{ProxyHeader, UntrustedProxies, UntrustedProxy};
