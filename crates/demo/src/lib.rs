//! The other parts of `tidegate demo`: the small API behind the gateway, and the clients in front of it.
//!
//! This crate gets only the gateway's address, so its clients are ordinary clients.

mod api;
mod clients;

pub use api::start as start_api;
pub use clients::{play, who_plays};
