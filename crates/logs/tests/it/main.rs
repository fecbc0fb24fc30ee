//! Reads logs: those in `tests/lines` and `tests/broken`, whose results are written beside them; those of real proxies in
//! `tests/samples`; and what the tests write themselves.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

mod support;

/// Which format is found, and what is said if none is.
mod detection;
/// Good lines and broken ones of each format.
mod formats;
/// The order of arrival, of one log and of several.
mod order;
/// Logs that real proxies wrote.
mod samples;
/// `--map` and templates.
mod templates;
/// Garbage, long lines, compressed files that are cut off.
mod trouble;
/// Lines of containers.
mod wrapped;
