//! The algorithms of a rate limiter, as pure functions of a state, a cost and a time.
//!
//! This crate defines the algorithms. The memory store runs this code, and `lua/*.lua` must compute the same numbers. The crate has no
//! clock, no store, no request and no configuration. State and time are arguments, and the result is a [`Verdict`].
//!
//! Decisions use integers below 2^53, because Lua's numbers are doubles, which round larger integers. Only a `fair_share` computes with other
//! doubles. A quota whose products could
//! reach 2^53 is refused with a [`QuotaError`].

mod algorithm;
mod block;
mod bucket;
mod calendar;
mod calendar_window;
mod concurrency;
mod counter;
mod debt;
mod decide;
mod fair_share;
mod fixed_window;
mod holds;
mod leaky_bucket;
mod mode;
mod numbers;
mod quota;
mod sliding_window_counter;
mod sliding_window_log;
mod tally;
mod token_bucket;
mod verdict;
mod window;

pub use algorithm::Algorithm;
pub use block::Block;
pub use bucket::Bucket;
pub use calendar::Calendar;
pub use counter::{Counter, WindowPair};
pub use debt::{Debt, Meter};
pub use decide::{Budget, decide};
pub use holds::{Hold, HoldId, KeyHolds};
pub use mode::Mode;
pub use numbers::{
    HIGHEST_RATE, MAX_EXACT, MAX_SPAN, MAX_WINDOW, Micros, Numbers, QuotaError, Rate, micros,
};
pub use quota::*;
pub use sliding_window_log::Stamps;
pub use tally::{Tally, TallyCounts, TallyTotals};
pub use verdict::Verdict;
pub use window::WindowCount;
