//! The gateway: what a request goes through, forwarding, reload, the admin port and the commands.
//!
//! Start reading at `stack` (what a request goes through, in order). Go on with [`gateway`] (how all parts are made from a checked
//! plan) and `runtime` (how another plan takes its place).

#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
pub mod commands;
pub mod gateway;

mod admin;
mod body;
#[cfg(test)]
mod documents;
mod forward;
mod keys;
mod outcome;
mod remote;
mod request;
mod runtime;
mod stack;
mod status;

pub use gateway::Gateway;
pub use runtime::{Inherited, ReloadError, Reloader, StartError};
