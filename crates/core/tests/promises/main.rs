//! Tests the promises of the algorithms on random quotas under random traffic.
//!
//! - `buckets`: token and leaky bucket against exact arithmetic, and the leaky bucket's releases
//! - `windows`: fixed window, log and counter against naive models, and the most units in a window
//! - `verdicts`: the meaning of every verdict: refusals, retry-after, remaining, reset
//! - `clock`: clocks that step back
//! - `changed`: quotas that change while keys have a state
//! - `accepted`: the numbers that are accepted, and the errors for others
//! - `blocks`: keys that are refused for a while, and limits that are only observed
//! - `calendar`: windows that are not equally long
//! - `debts`: real costs that are charged afterwards, and exceed the capacity
//! - `holds`: units that requests set aside until they end
//! - `traffic`: quotas and traffic to try them on

#![expect(
    clippy::unwrap_used,
    reason = "a panic is how a test fails, in its helpers too"
)]

mod accepted;
mod blocks;
mod buckets;
mod calendar;
mod changed;
mod clock;
mod debts;
mod holds;
mod shares;
mod traffic;
mod verdicts;
mod windows;
