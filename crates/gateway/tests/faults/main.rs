//! Redis in trouble under load, with its figures: what clients see, for how long, and how much is admitted beyond a limit.
//!
//! Each of these takes half a minute or more, so they are run by hand, one after the other (CONTRIBUTING.md):
//!
//! ```text
//! cargo test -p tidegate --test faults -- --ignored --nocapture --test-threads 1
//! ```
//!
//! Counts are judged exactly; times are this machine's, so they are printed, and judged by bounds that only something
//! broken would miss.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "each binary uses its own part")]
mod support;

/// Gateways, the load on them, and what came of it in figures.
mod rig;

// One server.
mod connections;
mod flood;
mod hung;
mod killed;
mod states;

// Several.
mod cluster;
mod sentinels;
