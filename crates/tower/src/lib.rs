//! Enforces: a tower layer that names the client, asks the store, and refuses or lets through.
//!
//! ```text
//! request ─ identify ─ charge ─ Store::decide ─┬─ refused: it waits in line, or 429, 503 ─────┐
//!                                              └─ admitted: its turn ─ inner service ─ headers ─ response
//! ```
//!
//! The same [`Decided`] that wrote the headers is left in the response's extensions, for whoever logs and counts. A
//! refusal is a response, never an error. This crate knows neither YAML nor hyper nor fred.

// The type of a future that asks Redis is about as deep as the default allows.
#![recursion_limit = "256"]

mod address;
mod answers;
pub mod api_keys;
mod asked;
mod cost;
mod decided;
mod demand;
mod early;
mod exchange;
mod headers;
mod identity;
mod ietf;
mod in_flight;
pub mod jwt;
mod layer;
mod lines;
mod named;
mod plan;
mod refusal;
mod retries;
mod rule;
mod shares;
mod subject;
mod waiting;

pub use address::{AddressFrom, TrustedProxies};
pub use answers::{Answers, RateLimitHeaders, Reject, Reset};
pub use cost::Cost;
pub use decided::{Decided, Oversized, Said};
pub use exchange::Transmission;
pub use headers::{
    RATELIMIT, RATELIMIT_POLICY, X_RATELIMIT_LIMIT, X_RATELIMIT_REMAINING, X_RATELIMIT_RESET,
};
pub use identity::{Caller, Client, ClientSource, Clients, Credentials, Peer};
pub use in_flight::{InFlight, Unanswered};
pub use layer::{RateLimit, RateLimitLayer};
pub use lines::{Lines, MOST_ABANDONED, MOST_IN_A_LINE, MOST_SETTLING, MOST_WAITING};
pub use named::{Budget, UnknownClient};
pub use plan::{ClientPlan, ClientPlans};
pub use refusal::problem;
pub use rule::{Action, PathValues, Per, Policy, Rule};
pub use subject::Hasher;
