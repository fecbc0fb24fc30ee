//! Records requests and the process: the access log, metrics, traces, and the log on standard error.
//!
//! A request leaves a [`Record`](access_log::Record) at its end, from which its line and its spans are made. Metrics are counters whose
//! handles are found at start. This crate answers no request, and reads no configuration file: each part has settings of its own.

pub mod access_log;
pub mod log;
pub mod metrics;
pub mod program;
pub mod status;
pub mod traces;

mod outcome;
mod per_second;
mod random;
mod request_id;

pub use outcome::{Cut, Forwarded, RequestOutcome, StatusClass};
pub use request_id::{RequestId, RequestIds};
