//! Enforces limits: a tower layer that names the client, calls the store, and refuses or forwards the request.
//!
//! ```text
//! request ─ identify ─ charge ─ Store::decide ─┬─ refused: it waits in line, or 429, 503 ─────┐
//!                                              └─ admitted: its turn ─ inner service ─ headers ─ response
//! ```
//!
//! A service in front of the layer puts a [`RequestContext`] into the extensions of each request. The layer adds [`Answered`] to each
//! answer, for logs and metrics. A refusal is a response, never an error. This crate uses neither YAML nor hyper nor fred.

// Futures that call Redis have deeply nested types, close to the compiler's default limit.
#![recursion_limit = "256"]

mod accept_encoding;
mod answered;
mod answers;
mod assessment;
mod body_costs;
mod budget_events;
mod charges;
mod context;
mod cost;
mod decided;
mod exchange;
mod header_number;
mod in_flight;
mod key;
mod layer;
mod names;
mod notify;
mod numbers;
mod overrides;
mod query;
mod question;
mod reserve;
mod reserve_reader;
mod retries;
mod rule;
mod shares;
mod wait_queues;
mod waiting;

pub use accept_encoding::accept_readable;
pub use answered::{AnswerBody, Answered, problem};
pub use answers::{Answers, RateLimitHeaders, Reject, Reset};
pub use assessment::{AssessedRule, Assessment, assess, assess_known};
pub use body_costs::BodyCost;
pub use budget_events::{BudgetEvent, BudgetEvents, Dropped};
pub use charges::{RuleCharge, RuleCharges, SETTLING, Until};
pub use context::RequestContext;
pub use cost::{Cost, Missing};
pub use decided::headers::{
    RATELIMIT, RATELIMIT_POLICY, X_RATELIMIT_LIMIT, X_RATELIMIT_REMAINING, X_RATELIMIT_RESET,
};
pub use decided::{Decided, LimitVerdict, Oversized};
pub use in_flight::{BodySettled, InFlight, ReadOn};
pub use key::cookie::cookie_value;
pub use key::{Hasher, folds_to};
pub use layer::{RateLimit, RateLimitLayer};
pub use names::{NamedBudgets, Prices, RequestTexts};
pub use notify::{Notify, Webhook};
pub use numbers::{NumberReader, SetNumbers};
pub use overrides::{OverrideAction, OverrideTable, Overrides};
pub use query::{QueryValue, query_values};
pub use question::{Descriptor, HeldUnits, Judged, Question, QuestionPart};
pub use reserve::{RequestReserve, Reserve};
pub use reserve_reader::{READ_AHEAD, ReserveReader, Reserves};
pub use rule::{Action, BudgetOwner, Per, Policy, Rule};
pub use shares::{Permit, Shares};
pub use tidegate_net::peer::Peer;
pub use tidegate_net::tls::ClientCertificate;
pub use tidegate_net::transmission::Transmission;
pub use tidegate_usage::{
    JsonPath, NamePattern, NamePatternError, PathError, Weight, WeightError, WeightedPath,
};
pub use wait_queues::{MAX_ABANDONED, MAX_IN_QUEUE, MAX_SETTLING, MAX_WAITING, WaitQueues};
