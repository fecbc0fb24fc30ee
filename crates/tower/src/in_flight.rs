//! What an admitted request holds until it has ended, and how it is settled: by its answer, if it comes to that.

use std::sync::Arc;

use http::Response;
use tidegate_store::{Limit, UnderWay};

use crate::Rule;

/// In the extensions of an answer: it stands for one that the upstream did not give. No `count` counts it, and what was
/// reserved for it stays charged.
#[derive(Clone, Copy, Debug)]
pub struct Unanswered;

/// The places that a request holds, in its answer's extensions. Whoever serves the answer keeps this until its body has
/// ended; when the last clone is dropped, the places are free again.
#[derive(Clone, Debug)]
pub struct InFlight {
    _under_way: Arc<UnderWay>,
}

/// What a request holds of which nobody knows yet how it ends.
#[derive(Debug)]
pub(crate) struct Unsettled {
    under_way: Option<UnderWay>,
    rules: Arc<[Rule]>,
}

impl Unsettled {
    pub(crate) const fn new(under_way: UnderWay, rules: Arc<[Rule]>) -> Self {
        Self {
            under_way: Some(under_way),
            rules,
        }
    }

    /// Settles it by the answer's head.
    pub(crate) fn settle<B>(mut self, answer: &Response<B>) -> Option<InFlight> {
        let mut under_way = self.under_way.take()?;
        let answer =
            Some(answer).filter(|answer| answer.extensions().get::<Unanswered>().is_none());
        under_way.settle(|limit| used(&self.rules, limit, answer));
        Some(InFlight {
            _under_way: Arc::new(under_way),
        })
    }
}

impl Drop for Unsettled {
    /// The client has left before there was an answer.
    fn drop(&mut self) {
        if let Some(mut under_way) = self.under_way.take() {
            under_way.settle(|limit| used::<()>(&self.rules, limit, None));
        }
    }
}

/// What a request has come to under a limit; none: what was reserved.
fn used<B>(rules: &[Rule], limit: &Limit, answer: Option<&Response<B>>) -> Option<u64> {
    let rule = rules
        .iter()
        .find(|rule| rule.limit.name() == limit.name())?;
    match &rule.count {
        None => rule.cost.told_by(answer?.headers()),
        Some(statuses) => {
            let counts = answer.is_some_and(|answer| statuses.contains(&answer.status()));
            (!counts).then_some(0)
        }
    }
}
