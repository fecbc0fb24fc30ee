//! Forwards an admitted request, and returns the upstream's answer.

mod answer_head;
mod edits;
mod error;
mod headers;
mod read_headers;
mod request_body;
mod service;
mod sticky;
mod upgrade;

pub(crate) use headers::{X_REQUEST_ID, identify};
pub(crate) use read_headers::ReadHeaders;
pub(crate) use service::{Forwarding, forward};
