//! Tools for the tests of the other crates: real and broken servers, clients and networks around a gateway.
//!
//! This crate uses no code of tidegate. Its servers and proxies run on ports of 127.0.0.1 that the system picks, and end when their guards
//! are dropped. So tests are independent and may run at the same time. The crate needs Linux.
//! - [`RedisServer`]: a real redis-server in its own folder, which a test can stop, restart and pause. A test can send any command to it,
//!   and gets the [`Reply`].
//! - [`RedisCluster`] and [`RedisSentinels`]: several servers that watch over each other; [`TlsRedis`] and [`Authority`]: a server that
//!   speaks TLS, and its certificates.
//! - [`Upstream`]: a server with a handler, of HTTP/1.1 or HTTP/2, plain or over TLS, which records every request that arrived.
//! - [`RawUpstream`]: a TCP server that keeps every byte that it receives, and plays the script of a test: any bytes, pauses and closes.
//! - [`RawClient`]: a TCP client that sends exactly the bytes of a test, and reads [`Message`]s strictly.
//! - [`Client`]: an HTTP client (1.1 or 2) that panics on a response header that the test did not announce.
//! - [`FaultProxy`]: a TCP proxy that delays, holds back or loses bytes, and cuts or refuses connections, when a test asks for it.
//! - [`RedisProxy`]: a proxy that understands RESP. It loses, delays or cuts one script call, or the reply to it.
//! - [`Load`]: requests at a fixed rate, even if answers are slow; [`Shots`]: the results of these requests.
//! - [`Process`]: a child process that ends with its guard. A test reads its output and memory, sends signals, and waits for its exit.
//! - [`Port`]: a port that stays reserved for one server while the server does not run; [`Silent`]: a port that never answers.
//! - [`body`]: bodies for handlers and requests.
//! - [`trials`]: random cases that are made from a seed. Many cases run at once. A case that breaks a promise is reduced to a smaller case
//!   that breaks the same promise.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "only tests use this crate, and a panic is how a test fails"
)]

pub mod body;
mod certificates;
mod client;
mod cluster;
mod fault;
mod headers;
mod http1;
mod listener;
mod load;
mod old_redis;
mod port;
mod process;
mod raw;
mod raw_client;
mod redis;
mod redis_proxy;
mod resp;
mod sentinels;
mod stepped_clock;
mod tls;
pub mod trials;
mod upstream;

pub use certificates::{Authority, Certificate};
pub use client::{Answer, Client};
pub use cluster::RedisCluster;
pub use fault::{FaultProxy, Way};
pub use http1::{Malformed, Message};
pub use load::{Load, Shot, Shots};
pub use old_redis::OldRedis;
pub use port::{Port, Silent};
pub use process::Process;
pub use raw::{Action, RawUpstream, Turn, When};
pub use raw_client::{End, RawClient};
pub use redis::RedisServer;
pub use redis_proxy::{CallFault, RedisProxy};
pub use resp::{RedisConnection, Reply};
pub use sentinels::RedisSentinels;
pub use tls::TlsRedis;
pub use upstream::{Arrival, Speaks, Upstream};
