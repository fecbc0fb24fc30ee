//! Where requests go: who of several servers takes one, who is left out, what is tried again, how much at once. Also what is
//! changed on the way.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![expect(
    clippy::print_stdout,
    reason = "shares of failed requests are for people"
)]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "each binary uses its own part")]
mod support;

/// Several servers behind one gateway.
mod group;

mod balance;
mod bounds;
mod checks;
mod cut;
mod edits;
mod ejection;
mod faults;
mod kept;
mod retries;
mod shares;
mod sticky;
