//! Keeps overrides: what operators set for a client or a network at run time, on all gateways, in place of what the configuration says.
//!
//! Each gateway has a copy of all overrides, so no request asks Redis for one. Twice a second a gateway asks Redis whether anything has
//! changed, in one call, and reads what has. Each change has a version, which is larger than all before: by that a change is refused
//! if another came first, and a Redis that has lost its data is told what the gateways know, cleared overrides included. Overrides end
//! by Redis's clock.
//!
//! - [`Subject`]: whom an override is for; [`Setting`], [`Override`]: what it says
//! - `replica`: the copy; [`Change`]: what becomes different in it
//! - `exchange`: the scripts in Redis; `memory`, `file`: the same without Redis
//! - [`Overrides`]: all of it; [`api`]: as JSON; [`port`]: over HTTP
//! - [`LiveOverrides`]: what a change makes of a gateway

pub mod api;
mod exchange;
mod file;
mod keeper;
mod live;
mod memory;
mod name;
pub mod port;
mod replica;
mod setting;

pub use exchange::{Ends, Expected};
pub use keeper::{
    ChangeError, Counts, Figures, Intent, Kept, Listener, Outcome, Overrides, Previous, Unfinished,
    Wish,
};
pub use live::{LiveOverrides, listed};
pub use name::{InvalidName, MAX_NAME, Subject};
pub use replica::Change;
pub use setting::{Action, Clearing, InvalidSetting, MAX_PLAN, MAX_REASON, Override, Setting};

/// The most overrides that there may be.
pub const MAX_OVERRIDES: usize = 100_000;
