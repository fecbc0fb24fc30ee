//! Overrides: settings for a client, a network or a limit that operators make at run time. Overrides apply on all gateways, in place of
//! the configuration.
//!
//! The overrides are a table of versioned entries, by name. Redis has the table, and each gateway has a copy, so no request reads the table
//! from Redis. Twice a second a gateway reads the entries that are newer than its last read. An ended entry stays in the table, so that a
//! gateway or a Redis with old data cannot restore an older entry of the same name. Overrides end by Redis's clock.
//!
//! - [`read_name`], [`Subject`]: the client, network or limit of an override; [`Setting`], [`Override`]: its content
//! - [`Wish`], [`Outcome`]: a change that an operator requests; [`Change`]: a change that has happened
//! - `table`: the entries and the current time; `redis`, `local`, `file`: the places that keep the entries
//! - [`Overrides`]: the table with its store; [`api`]: the overrides as JSON; [`port`]: the overrides over HTTP
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
pub use live::{LimitNumbers, LiveOverrides};
pub use name::{InvalidName, MAX_NAME, Subject, read_name};
#[doc(hidden)]
pub use redis::Timing;
pub use setting::{
    Change, Clearing, InvalidSetting, MAX_PLAN, MAX_REASON, MAX_SET_LIMITS, Override, Setting,
};

/// The most overrides that may be in force.
pub const MAX_OVERRIDES: usize = 100_000;
