//! A refusal ends at its retry-after.

use super::{Breach, Promise};
use crate::history::Span;

pub(super) const RETRY_AFTER: Promise = Promise {
    name: "retry_after",
    words: "A request that is refused, and asks again alone when its retry-after is over, is admitted.",
    check: |history| {
        let returns = history.returns.iter();
        let returns = returns.filter(|again| !again.admitted && history.judges_gateways());
        let breach = returns.map(|again| Breach {
            promise: RETRY_AFTER.name,
            limit: again.limit,
            key: Some(again.key),
            span: Span {
                begin: again.refused,
                end: again.asked_again,
            },
            what: format!("refused for {} us, and again after that", again.retry_after),
        });
        breach.collect()
    },
};
