//! Reads questions of other programs: may a request pass that tidegate does not carry? Writes the answers.
//!
//! - [`Domains`]: the limits of descriptors, which Envoy's `RateLimitService` sends

mod domains;

pub use domains::{Domain, Domains, Entry, Node, Target, ValuePattern};
