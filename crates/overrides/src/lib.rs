//! Keeps overrides: settings that operators make for a client or a network at run time, on all gateways, in place of the configuration.
//!
//! The overrides are one table of versioned entries, by name. Redis has it, and each gateway has a copy, so no request reads it from Redis.
//! Twice a second a gateway reads the entries that are newer than the version that it has read. An entry that is over stays: so a gateway
//! that was away, or a Redis that lost data, brings back no older entry. Overrides end by Redis's clock.
//!
//! - [`read_name`]: the client or network of an override; [`Setting`], [`Override`]: its content
//! - [`Wish`], [`Outcome`]: a change that an operator requests; [`Change`]: a change that has happened
//! - `table`: the entries, as of a time; `redis`, `local`, `file`: the places that keep them
//! - [`Overrides`]: all of it; [`api`]: as JSON; [`port`]: over HTTP
//! - [`LiveOverrides`]: applies changes to a gateway

pub mod api;
mod change;
mod figures;
mod file;
mod keeper;
mod live;
mod local;
mod name;
pub mod port;
mod redis;
mod setting;
mod table;

pub use change::{ChangeError, Ends, Expected, Intent, Outcome, Previous, Unfinished, Wish};
pub use figures::{Counts, Figures, Kept};
pub use keeper::{Listener, Overrides};
pub use live::LiveOverrides;
pub use name::{InvalidName, MAX_NAME, read_name};
#[doc(hidden)]
pub use redis::Timing;
pub use setting::{
    Change, Clearing, InvalidSetting, MAX_PLAN, MAX_REASON, MAX_SET_LIMITS, Override, Setting,
};

/// The most overrides that may be in force.
pub const MAX_OVERRIDES: usize = 100_000;
