//! The stores against a real Redis, in one binary for the sake of link time.
//!
//! - `agreement`: what Redis answered, replayed through the Rust algorithms at the times that Redis reports
//! - `behaviour`: the same scripted traffic gets the same answers from either store
//! - `keys`: what stands in Redis: names, and how long
//! - `memory`: the memory store's bound, and who makes place for whom
//! - `outage`: what decides when Redis does not
//! - `trouble`: lost scripts, values of the wrong type, URLs
//! - `support`: what they share

#![expect(
    clippy::unwrap_used,
    reason = "a panic is how a test fails, in its helpers too"
)]

mod agreement;
mod behaviour;
mod keys;
mod memory;
mod outage;
mod support;
mod trouble;
