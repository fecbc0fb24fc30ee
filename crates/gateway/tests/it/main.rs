//! The gateway as its users meet it, in one binary for the sake of link time.

#[path = "../support/mod.rs"]
mod support;

mod limits;
