//! Reports requests and the state of the process: the access log, metrics, traces, and the log on standard error.
//!
//! A request has a [`Record`](access_log::Record), and at the end of the request its line and its spans are made from the record. A
//! request's counters are looked up at start, so a request only adds to them. This crate answers no request and reads no configuration
//! file. Each part has settings of its own.

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
