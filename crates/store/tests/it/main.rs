//! The stores against a real Redis, in one binary for the sake of link time.
//!
//! - `agreement`: what Redis answered, replayed through the Rust algorithms at the times that Redis reports
//! - `behaviour`: the same scripted traffic gets the same answers from either store
//! - `keys`: what stands in Redis: names, and how long
//! - `trouble`: lost scripts, and a Redis that does not answer

mod agreement;
mod behaviour;
mod keys;
mod support;
mod trouble;
