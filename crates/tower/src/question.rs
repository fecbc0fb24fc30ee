//! Questions of other programs: may a request pass that another process carries?
//!
//! A question has no request that this process could forward. It names the rules to charge, and for each rule the values that the rule is
//! counted per. A question never waits: if a limit delays its requests, the verdict has the time to wait.

use std::sync::Arc;

use http::Request;
use tidegate_core::MAX_EXACT;
use tidegate_store::{Holds, Limit, PerCharge};

use crate::Decided;
use tidegate_identity::Caller;

/// The entries of a descriptor, in the extensions of a question's request.
#[derive(Clone, Debug, Default)]
pub struct Descriptor(pub Vec<(Box<str>, Box<str>)>);

impl Descriptor {
    /// Returns all values under a key of the request's descriptor, in their order.
    pub(crate) fn values<'a, B>(
        request: &'a Request<B>,
        key: &str,
    ) -> impl Iterator<Item = &'a str> {
        let descriptor = request.extensions().get::<Self>();
        let entries = descriptor.into_iter().flat_map(|it| &it.0);
        let of_key = entries.filter(move |(other, _)| **other == *key);
        of_key.map(|(_, value)| &**value)
    }
}

/// A question: the caller, and the rules to charge.
#[derive(Debug)]
pub struct Question {
    /// The client that access lists and overrides are applied to, and that logs name.
    pub caller: Caller,
    /// The charges, in order.
    pub parts: Vec<QuestionPart>,
    /// Whether admitted units stay held until the asking program settles them. Otherwise every hold ends at once, with the part's cost.
    pub holds: bool,
}

/// A charge that a question asks for.
#[derive(Debug)]
pub struct QuestionPart {
    /// The rule's index in the policy.
    pub rule: usize,
    /// The caller that the rule is counted per. `None` for the question's caller.
    pub caller: Option<Caller>,
    /// The values that the rule is counted per: the head and the extensions of a request.
    pub request: Arc<Request<()>>,
    /// The cost, at least 1. `None` for the rule's own cost.
    pub cost: Option<u64>,
    /// The limit that is charged. `None` for the rule's limit, with the quota of the caller's plan.
    pub limit: Option<Arc<Limit>>,
}

/// The decision on a question.
#[derive(Debug)]
pub struct Judged {
    /// The decision.
    pub decided: Box<Decided>,
    /// The units that stay held, if the question [holds](Question::holds).
    pub held: Option<HeldUnits>,
    /// For each part of the question, the index of its verdict in the decision. `None` if no limit was charged for the part: the caller is
    /// exempt, or its plan is unlimited.
    pub verdicts: PerCharge<Option<usize>>,
    /// For each part of the question, its [own limit](QuestionPart::limit).
    pub limits: Vec<Option<Arc<Limit>>>,
}

/// Units that a decision has set aside. When the value is dropped, the reserved units are charged.
#[derive(Debug)]
pub struct HeldUnits {
    holds: Holds,
    is_settled: bool,
}

impl HeldUnits {
    pub(crate) const fn new(holds: Holds) -> Self {
        Self {
            holds,
            is_settled: false,
        }
    }

    /// Ends the holds. Each limit charges `cost`, also beyond the units that are left; without a cost, the reserved units. A limit of `concurrency` makes no charge.
    pub fn settle(mut self, cost: Option<u64>) {
        self.end(cost);
    }

    /// Ends the holds. Each limit charges the units that it has reserved, less the units that `given_back` returns for its name.
    pub fn give_back(mut self, given_back: impl Fn(&str) -> u64) {
        self.is_settled = true;
        self.holds
            .settle(|limit, reserved| reserved.saturating_sub(given_back(limit.name())));
    }

    fn end(&mut self, cost: Option<u64>) {
        if !std::mem::replace(&mut self.is_settled, true) {
            let cost = cost.map(|cost| cost.min(MAX_EXACT));
            self.holds.settle(|_, reserved| cost.unwrap_or(reserved));
        }
    }
}

impl Drop for HeldUnits {
    fn drop(&mut self) {
        self.end(None);
    }
}
