//! The listener for decisions, as programs and proxies meet it.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "each binary uses its own part")]
mod support;

/// A gateway with doors, and what asks it: JSON, Envoy's calls, proxies.
mod kit;

mod access;
mod alike;
mod ask;
mod bad_calls;
mod check;
mod deadline;
mod rate_limit;
mod ratelimit_files;
mod receipts;
mod records;
mod streams;
