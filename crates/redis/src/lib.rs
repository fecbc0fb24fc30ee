//! Connections to Redis: its servers, the calls to them, and the bounds on these calls.
//!
//! Only this crate uses the client library fred, and it exports no type of fred. The crate contains no limit, charge or decision: callers
//! pass scripts, keys and arguments, and read the replies. From `tidegate-core` it uses only `Micros` and `MAX_EXACT`.
//!
//! - `url`, [`Tls`]: the URL and the TLS settings of the configuration; `route`: address, login and TLS of one server
//! - [`Client`]: a connection that reconnects, with `sentinels` and commands; `alive`: detects a dead connection; `settings`: the settings
//!   of fred
//! - [`Word`]: an argument of a command; `failure`, [`CallError`], [`ErrorReply`]: reasons of failures; [`Complaints`]: bounds how often
//!   errors are logged; [`Scripts`]: texts and hashes of scripts
//! - [`Shard`]: one server with its scripts; [`InFlightLimit`], `breaker`, `clock`, `deadline`, [`Wait`]: the bounds on its calls;
//!   [`Confirmation`]: whether the server has all `concurrency` holds of this process
//! - `slots`, `cluster`: the slots and nodes of a Redis Cluster; [`Shards`]: a single server or a Redis Cluster
//! - [`Batcher`]: several decisions in one call
//! - [`Gateways`], [`Secret`], [`Claims`]: the other gateways on this Redis; [`RedisInfo`]: statistics of a server

mod alive;
mod batcher;
mod breaker;
mod claims;
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
mod wait;
mod word;

pub use batcher::{Batched, Batcher, Question};
pub use claims::{Claim, Claims};
pub use client::{Client, sha1};
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
pub use shards::{BadCursor, Cursor, InvalidOptions, ScanStep, Shards, SilentNodes};
pub use slots::slot_of_tag;
pub use tls::Tls;
pub use uptime::uptime;
pub use url::{InvalidUrl, check_url, is_tls};
pub use wait::Wait;
pub use word::Word;
