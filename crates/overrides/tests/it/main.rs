//! Overrides against a real Redis, and without one.
//!
//! - `shared`: what one gateway changes, others know, also after Redis or a gateway was lost
//! - `returns`: what was replaced or has ended does not come back
//! - `slow`: a Redis that takes its time
//! - `bounds`: many overrides, and what a hostile hand writes into Redis
//! - `alone`: a gateway without Redis
//! - `support`: what they share

#![expect(
    clippy::unwrap_used,
    reason = "a panic is how a test fails, in its helpers too"
)]

mod alone;
mod bounds;
mod returns;
mod shared;
mod slow;
mod support;
