//! The stores against a real Redis, in one binary for the sake of link time.
//!
//! - `agreement`: what Redis answered, replayed through the Rust algorithms at the times that Redis reports
//! - `bad_key`: a key under which stands what no limiter wrote, and whom that concerns
//! - `behaviour`: the same scripted traffic gets the same answers from either store
//! - `budgets`: one client's, looked at and forgotten; and what Redis tells of itself
//! - `expiry`: keys whose time to live was taken away
//! - `keys`: what stands in Redis: names, and how long
//! - `laws`: what no limit may admit, whoever keeps it
//! - `leases`, `leases_fleet`, `_random`, `_script`, `_trouble`: limits that gateways borrow slices of
//! - `late`: a Redis that is hung or slow, and what it then must not charge
//! - `logs`: what a sliding window log costs
//! - `memory`: the memory store's bound, and who makes place for whom
//! - `modes`: limits that are kept in the gateway
//! - `outage`: what decides when Redis does not
//! - `places`: what running requests hold, and what may happen to it
//! - `planted`: huge values under limiter keys
//! - `refusals`: refusals that are given again without asking
//! - `settlements`: costs that are known after the decision; `settlements_lost`: on their way to Redis
//! - `several`: requests that several limits refuse: which limits a refusal names, and which blocks start
//! - `several_slots`: requests over several slots of a Redis Cluster, and what is remembered of them
//! - `held`: who hears of what is settled, and what is held for a time after its request
//! - `shares`: what gateways give away in an outage
//! - `synced`: counts that gateways exchange; `synced_script`: call by call, `synced_fleet`: how far limits are exceeded,
//!   `synced_outage`: what Redis misses, and what becomes of it, `synced_lost`: and what it has lost, `synced_cluster`: elsewhere than at one server;
//!   `synced_kit`: what these share
//! - `together`: decisions that are asked for at the same moment
//! - `topologies`: users, sockets and sentinels; `topologies_cluster`, `_slots`, `_tls`: what their names say
//! - `trouble`: lost scripts, values of the wrong type, URLs
//! - `ways`: limits that block, and limits that are only observed
//! - `within`: callers that wait for less than the timeout
//! - `support`: what they share

#![expect(
    clippy::unwrap_used,
    reason = "a panic is how a test fails, in its helpers too"
)]

mod agreement;
mod bad_key;
mod behaviour;
mod budgets;
mod expiry;
mod held;
mod keys;
mod late;
mod laws;
mod leases;
mod leases_fleet;
mod leases_random;
mod leases_script;
mod leases_trouble;
mod logs;
mod memory;
mod modes;
mod outage;
mod places;
mod plans;
mod planted;
mod probe;
mod refusals;
mod settlements;
mod settlements_lost;
mod several;
mod several_slots;
mod shares;
mod support;
mod synced;
mod synced_cluster;
mod synced_fleet;
mod synced_kit;
mod synced_lost;
mod synced_outage;
mod synced_script;
mod together;
mod topologies;
mod topologies_cluster;
mod topologies_slots;
mod topologies_tls;
mod trouble;
mod turns;
mod ways;
mod within;
