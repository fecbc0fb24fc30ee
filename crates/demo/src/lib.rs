//! The parts of `tidegate demo` around the gateway: a small API as the upstream, and clients that send requests.
//!
//! This crate gets only the gateway's address, so its clients have no special access.

mod api;
mod clients;

pub use api::start as start_api;
pub use clients::{play, who_plays};
