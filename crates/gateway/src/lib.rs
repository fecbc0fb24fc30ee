//! The gateway: the steps of a request, forwarding, reload, the admin port and the commands.
//!
//! Start reading at `stack`, which has the steps of a request in order. Then read [`gateway`], which makes all parts from checked settings,
//! and `runtime`, which replaces the parts at a reload.

#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
pub mod commands;
pub mod gateway;

mod admin;
mod body;
mod budgets;
#[cfg(test)]
mod documents;
mod doors;
mod forward;
mod keys;
mod notify;
mod outcome;
mod remote;
mod request;
mod runtime;
mod stack;
mod status;

pub use gateway::Gateway;
pub use runtime::{Inherited, ReloadError, Reloader, StartError};
