//! Resets that are answered as failed.

use super::{Breach, Promise, at_most, settled};
use crate::history::History;

pub(super) const NOT_LATER: Promise = Promise {
    name: "reset",
    words: "A reset that is answered 503 is not made after its answer.",
    check,
};

/// Promises that are broken only if a failed reset is not made after its answer.
fn check(history: &History) -> Vec<Breach> {
    if history.resets.iter().all(|reset| reset.done) {
        return Vec::new();
    }
    let strict = History {
        has_no_late_resets: true,
        ..history.clone()
    };
    let broken = all(history);
    let failed = |breach: &Breach| {
        let mut resets = history.resets.iter().filter(|reset| !reset.done);
        resets.any(|reset| reset.limit == breach.limit && Some(reset.key) == breach.key)
    };
    let is_known = |breach: &Breach| {
        let mut known = broken.iter();
        known.any(|known| (known.limit, known.key) == (breach.limit, breach.key))
    };
    let late = all(&strict).into_iter();
    let late = late.filter(|breach| failed(breach) && !is_known(breach));
    late.map(|breach| Breach {
        promise: NOT_LATER.name,
        what: format!("{}: {}", breach.promise, breach.what),
        ..breach
    })
    .collect()
}

fn all(history: &History) -> Vec<Breach> {
    let promises = at_most::ALL.iter().chain([&settled::KEPT]);
    promises
        .flat_map(|promise| (promise.check)(history))
        .collect()
}
