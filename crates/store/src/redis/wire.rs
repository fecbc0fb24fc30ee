//! Connections to Redis: which servers there are, whether they may be asked, and what commands they run.
//!
//! This module must not know limits, charges or decisions. Only `link`, `settings`, `alive`, `client`, `failure`,
//! `sentinels`, `slots` and `cluster` know fred.
//!
//! - [`url`], [`tls`]: what users write; [`route`]: how to come to one server
//! - [`link`]: a connection that is made again when it ends; [`alive`]: whether it carries anything; [`settings`]: how fred
//!   is set
//! - [`client`]: the commands; [`failure`]: why one failed; [`script`]: a script and its name
//! - [`shard`]: one server with its scripts; [`guard`], [`breaker`], [`clock`]: whether it may be asked, and until when;
//!   [`confirmation`]: whether it has all places of this process
//! - [`slots`], [`cluster`]: which server has which keys; [`shards`]: one server or many

pub(super) mod alive;
pub(super) mod breaker;
pub(super) mod client;
pub(super) mod clock;
pub(super) mod cluster;
pub(super) mod confirmation;
pub(super) mod failure;
pub(super) mod guard;
pub(super) mod link;
pub(super) mod route;
pub(super) mod script;
pub(super) mod settings;
pub(super) mod shard;
pub(super) mod shards;
pub(super) mod slots;
pub(super) mod task;
pub(super) mod tls;
pub(super) mod url;
