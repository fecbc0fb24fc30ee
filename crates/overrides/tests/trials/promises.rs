//! The promises of overrides. Each has a name and a sentence that the documentation repeats word for word. Its checker finds the places
//! in a history where it was broken.
//!
//! A checker allows more than its sentence only where the history has a reason: a fault that lasts, data that was lost with the only
//! gateway that had read it, or a time that is known as a span. A promise counts as broken only if each time within the span breaks it.

mod known;
mod listed;
mod planted;
mod shown;
mod versions;

use std::fmt;

use tidegate_core::Micros;

use crate::history::History;

/// A promise.
pub(crate) struct Promise {
    pub(crate) name: &'static str,
    /// The sentence of the documentation.
    pub(crate) words: &'static str,
}

/// A place where a promise was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    pub(crate) promise: &'static str,
    pub(crate) subject: usize,
    pub(crate) at: Micros,
    pub(crate) text: String,
}

pub(crate) const SET: Promise = Promise {
    name: "override_set",
    words: "From the answer of a change on, and on each other gateway that reaches Redis 2 s later, a client has the override with \
            the highest version under its name.",
};
pub(crate) const ENDS: Promise = Promise {
    name: "override_ends",
    words: "A replaced, shortened, cleared or ended override never comes back: not after a failover to a replica that is behind, \
            not with older or no data, not by a gateway that was away, as long as one running gateway has read the later change, \
            and for 30 days.",
};
pub(crate) const REFUSED: Promise = Promise {
    name: "override_refused",
    words: "A change that is answered 503 is not made after its answer.",
};
pub(crate) const CLOCK: Promise = Promise {
    name: "override_clock",
    words: "An override is in force exactly while Redis's clock is before its end; a clock that is set back brings back the \
            overrides whose end is ahead again.",
};
pub(crate) const LISTED: Promise = Promise {
    name: "override_listed",
    words: "The listed overrides are the enforced ones.",
};

/// Returns every place where a promise was broken.
pub(crate) fn broken(history: &History) -> Vec<Breach> {
    let mut broken = versions::broken(history);
    for subject in 0..history.subjects {
        broken.extend(shown::broken(history, subject));
        broken.extend(listed::broken(history, subject));
    }
    if history.converged.is_none() {
        broken.push(Breach {
            promise: SET.name,
            subject: 0,
            at: 0,
            text: "all faults are over, and the gateways have not the same overrides".to_owned(),
        });
    }
    broken
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            promise,
            subject,
            text,
            ..
        } = self;
        write!(f, "{promise}: subject {subject}: {text}")
    }
}
