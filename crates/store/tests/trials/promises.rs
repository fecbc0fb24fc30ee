//! The promises of all limits. Each has a name, a sentence that the documentation repeats word for word, and a checker. The checker finds
//! the places in a history where the promise was broken.
//!
//! A checker computes its tolerances from the history. For an outage, it uses the numbers of gateways in answers to heartbeats. For a reset
//! or a loss of data, it uses their times. A time that is not known exactly is a span. A promise counts as broken only if it was broken for
//! every time in that span.

mod arrival;
mod at_most;
mod block;
mod budget;
mod concurrency;
mod delay;
mod known;
mod leaving;
mod noticed;
mod observe;
mod outage;
mod planted;
mod refusal;
mod resets;
mod returns;
mod settled;
mod several;
mod shares;
mod used;

use std::fmt;

use crate::history::{History, Span};

/// A promise.
pub(crate) struct Promise {
    pub(crate) name: &'static str,
    /// The sentence in the documentation.
    pub(crate) words: &'static str,
    pub(crate) check: fn(&History) -> Vec<Breach>,
}

/// A place where a promise was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    pub(crate) promise: &'static str,
    pub(crate) limit: usize,
    pub(crate) key: Option<u64>,
    pub(crate) span: Span,
    pub(crate) what: String,
}

/// All promises.
pub(crate) const ALL: &[Promise] = &[
    at_most::TOKEN_BUCKET,
    at_most::LEAKY_BUCKET,
    at_most::FIXED_WINDOW,
    at_most::LOG,
    at_most::COUNTER,
    at_most::COUNTER_WINDOW,
    at_most::LEASED,
    at_most::SYNCED,
    leaving::LEFT,
    concurrency::AT_MOST,
    concurrency::HELD,
    outage::LOCAL,
    outage::LOCAL_MODE,
    outage::CLOSED,
    noticed::NOTICED,
    block::LASTS,
    block::BEGINS,
    block::ENDS,
    observe::NOBODY,
    refusal::JUSTIFIED,
    refusal::REMEMBERED,
    several::NAMED,
    returns::RETRY_AFTER,
    resets::NOT_LATER,
    settled::KEPT,
    settled::FRESH,
    delay::IN_ORDER,
    shares::IDLE,
    shares::FIRST,
    shares::FAIR,
];

/// Every place where a promise was broken, by the deciding clock.
pub(crate) fn broken_by_any_clock(history: &History) -> Vec<Breach> {
    let histories = history.by_clock();
    histories.iter().flat_map(broken).collect()
}

/// The first place for every key for which a promise was broken.
pub(crate) fn broken(history: &History) -> Vec<Breach> {
    let mut broken: Vec<Breach> = Vec::new();
    for breach in ALL.iter().flat_map(|promise| (promise.check)(history)) {
        let of = |breach: &Breach| (breach.promise, breach.limit, breach.key);
        if !broken.iter().any(|known| of(known) == of(&breach)) {
            broken.push(breach);
        }
    }
    broken
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            promise,
            limit,
            key,
            what,
            ..
        } = self;
        match key {
            Some(key) => write!(f, "{promise}: limit {limit}, key {key}: {what}"),
            None => write!(f, "{promise}: limit {limit}: {what}"),
        }
    }
}
