//! Makes a running gateway of a plan, and puts another plan in its place.
//!
//! - [`snapshot`]: everything that a reload swaps; [`build`]: the parts that outlive it, and how they make a snapshot
//! - [`reload`]: the swap; [`sockets`]: ports
//! - the rest: background tasks, and the files and Redis that they watch

pub(crate) mod background;
pub(crate) mod budgets;
pub(crate) mod build;
pub(crate) mod fixed;
pub(crate) mod limit_keys;
pub(crate) mod redis_outage;
pub(crate) mod redis_watch;
pub(crate) mod reload;
pub(crate) mod shared_secret;
pub(crate) mod snapshot;
pub(crate) mod sockets;
mod start_error;

pub use reload::{ReloadError, Reloader};
pub use sockets::Inherited;
pub use start_error::StartError;
