//! Replays access logs against configurations: finds the clients that would have been refused, when, and by which limit.
//!
//! ```text
//! logs::Reader ─ Candidate: route, client, charges ─┬─ Lane: the memory store at given times ─ LaneStats ─ Report
//!  (by arrival)  (by tower's own `assess_known`)     └─ Ladder: the same at other quotas
//! ```
//!
//! This crate does not implement the gateway's rules a second time. A [`Router`] of the gateway finds routes. `tidegate-identity`
//! identifies clients, and `tidegate-tower` computes charges. The memory store of `tidegate-store` decides at the times of the log. If the
//! line of a request lacks a fact that a limit needs, the limit is not computable for this request. The replay never guesses a missing
//! fact.

mod arrivals;
mod asked;
mod cache;
mod caller;
mod candidate;
mod charged;
mod collect;
mod command;
mod counts;
mod engine;
mod html;
mod lacks;
mod ladder;
mod lane;
mod notes;
mod plain;
mod progress;
mod range;
mod report;
mod request;
mod router;
mod series;
mod stats;
mod suggest;
mod table;
mod terminal;
#[cfg(test)]
mod tests;
mod time;
mod variants;

pub use command::{Options, run};
pub use engine::Trial;
pub use router::Router;
