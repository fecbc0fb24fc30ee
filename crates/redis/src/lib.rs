//! Connections to Redis: which servers there are, whether they may be asked, and how calls to them are made.
//!
//! This crate is the only one that uses fred, and no type of fred leaves it. It sees no limit, charge or decision: scripts,
//! keys and arguments are given to it, and replies are numbers. Of `tidegate-core` it uses types of time only.
//!
//! - `url`, [`Tls`]: what users write; `route`: how to come to one server
//! - [`Client`]: a connection that is made again when it ends, with `sentinels`, and its commands; `alive`: whether it carries
//!   anything; `settings`: how fred is set
//! - [`Word`]: what commands take; `failure`, [`CallError`], [`ErrorReply`]: why one failed;
//!   [`Complaints`]: errors are logged once; [`Scripts`]: their texts and names
//! - [`Shard`]: one server with its scripts; [`InFlightLimit`], `breaker`, `clock`, `deadline`: whether it may be asked, and until when;
//!   [`Confirmation`]: whether it has all holds of this process
//! - `slots`, `cluster`: which server has which keys; [`Shards`]: one server or many
//! - [`Batcher`]: several questions in one call
//! - [`Gateways`], [`Secret`]: who else uses this Redis; [`RedisInfo`]: what it says of itself

mod alive;
mod batcher;
mod breaker;
mod client;
mod clock;
mod cluster;
mod complaints;
mod confirmation;
mod deadline;
mod error;
mod error_reply;
mod failure;
mod gateways;
mod in_flight;
mod info;
mod route;
mod script;
mod secret;
mod settings;
mod shard;
mod shards;
mod slots;
mod task;
mod tls;
mod uptime;
mod url;
mod word;

pub use batcher::{Batched, Batcher, Question};
pub use client::Client;
pub use complaints::Complaints;
pub use confirmation::{Confirmation, Confirmed};
pub use deadline::{deadline, with_deadline};
pub use error::CallError;
pub use error_reply::ErrorReply;
pub use gateways::{Finding, Gateways, HEARTBEAT, Identity};
pub use in_flight::{Answer, InFlightLimit};
pub use info::{LEAST_VERSION, NodeInfo, RedisInfo};
pub use script::{ReplyValue, Scripts};
pub use secret::{Agreement, Secret};
pub use settings::CONNECT;
pub use shard::{Named, Shard, Tagged};
pub use shards::{InvalidOptions, Shards, SilentNodes};
pub use slots::slot_of_tag;
pub use tls::Tls;
pub use uptime::uptime;
pub use url::{InvalidUrl, check_url, is_tls};
pub use word::Word;
