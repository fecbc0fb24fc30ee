//! What the algorithms promise, tried on random quotas under random traffic.
//!
//! - `buckets`: token and leaky bucket against exact arithmetic, and the leaky bucket's releases
//! - `windows`: fixed window, log and counter against naive models, and how much fits into a window
//! - `verdicts`: what every verdict must mean: refusals, retry-after, remaining, reset
//! - `clock`: clocks that step back
//! - `changed`: quotas that change under keys that have state
//! - `accepted`: which numbers are accepted, and what is said of those that are not
//! - `blocks`: keys that are refused for a while, and limits that are only observed
//! - `calendar`: windows that are not equally long
//! - `debts`: costs that are known afterwards, and go beyond the capacity
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
mod traffic;
mod verdicts;
mod windows;
