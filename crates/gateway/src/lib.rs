//! Serves: configuration, routes, the stack of each, forwarding, listeners, the admin port and the commands.
//!
//! Start reading at [`stack`] (what a request goes through), then `frontend` (one request from head to answer) and
//! [`gateway`] (how all parts are made from a checked plan, and how another plan takes its place). Nothing below that reads
//! configuration.

#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
pub mod commands;
pub mod gateway;

mod access_log;
mod admin;
mod body;
mod budgets;
mod certificate_watch;
mod chores;
mod cors;
#[cfg(test)]
mod documents;
mod frontend;
mod grpc;
mod in_force;
mod jwks;
mod key_files;
mod limit_keys;
mod log;
mod metrics;
mod outcome;
mod problem;
mod proxy;
mod redis_outage;
mod redis_watch;
mod request_end;
mod request_id;

mod routes;
mod shared_secret;
mod stack;
mod target;

pub use gateway::{Gateway, Inherited, ReloadError, Reloader, StartError};
