//! Makes a running gateway from settings, and replaces the settings at a reload.
//!
//! - [`snapshot`] has everything that a reload replaces. [`build`] has the parts that outlive a reload, and makes snapshots.
//! - [`reload`] replaces the snapshot. [`sockets`] opens ports.
//! - `background`, `redis_outage`, `redis_watch` and `shared_secret` are background tasks.
//! - `budgets` shows and resets the budgets of one client. `fixed` and `limit_keys` predict the effects of a reload.

pub(crate) mod background;
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
