//! Plays: the small API behind the gateway of `tidegate demo`, and the clients in front of it.
//!
//! This crate knows nothing of the gateway but its address: its clients are clients as any other.

mod api;
mod clients;

pub use api::start as start_api;
pub use clients::{play, who_plays};
