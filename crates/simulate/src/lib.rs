//! Replays access logs against configurations: who would have been limited, when, and by what.
//!
//! ```text
//! logs::Reader ─ Candidate: route, client, charges ─┬─ Lane: the memory store at given times ─ LaneStats ─ Report
//!  (by arrival)  (by tower's own `assess_known`)     └─ Ladder: the same at other quotas
//! ```
//!
//! Nothing here reads the rules again: a [`Router`] of the gateway finds routes, `tidegate-tower` names clients and computes charges, and
//! the memory store of `tidegate-store` decides at the times that the log has. What a line lacks for a limit makes the limit not
//! computable for its request; nothing is guessed.

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
