//! Reports requests and the state of the process: the access log, metrics, traces, and the log on standard error.
//!
//! Each request has a [`Record`](access_log::Record). At the end of the request, its access log line and its spans are made from the
//! record. The counters of a route are looked up when the configuration is loaded, so a request only adds to them. This crate answers no
//! request and reads no configuration file. The caller passes the settings.

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

pub use outcome::{Cut, Door, Forwarded, RequestOutcome, StatusClass};
pub use request_id::{RequestId, RequestIds};
