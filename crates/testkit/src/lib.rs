//! The base of the tests of the other crates: real and broken servers, clients and networks around a gateway.
//!
//! It uses no code of tidegate. Everything runs on ports of 127.0.0.1 that the system picks, and ends when its guard is dropped. So tests
//! are independent and may run at the same time. The crate needs Linux.
//! - [`RedisServer`]: a real redis-server in its own folder, which a test can stop, restart and pause. It sends a [`Reply`] to any command.
//! - [`RedisCluster`] and [`RedisSentinels`]: several servers that watch over each other; [`TlsRedis`] and [`Authority`]: a server that
//!   speaks TLS, and its certificates.
//! - [`Upstream`]: a server with a handler, of HTTP/1.1 or HTTP/2, plain or over TLS, which records every request that arrived.
//! - [`RawUpstream`]: a TCP server that keeps every byte, and answers with any bytes and accidents that a test scripts.
//! - [`RawClient`]: a TCP client that sends exactly these bytes, and reads [`Message`]s strictly.
//! - [`Client`]: an HTTP client (1.1 or 2) that panics on a response header that the test did not announce.
//! - [`FaultProxy`]: a TCP proxy that delays, stalls, drips, strands, cuts and refuses at run time.
//! - [`RedisProxy`]: a proxy that understands RESP. It loses, delays or cuts one script call, or the reply to it.
//! - [`Load`]: requests at a fixed rate, however slow the answers; [`Shots`]: their results.
//! - [`Process`]: a guard for a child process: its lines, signals, exit and memory.
//! - [`Port`]: a port kept for one server, before, between and after its runs; [`Silent`]: a port that never answers.
//! - [`body`]: bodies for handlers and requests.
//! - [`trials`]: random cases that are made from a seed. Many run at once, and a case with a finding is reduced.

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
