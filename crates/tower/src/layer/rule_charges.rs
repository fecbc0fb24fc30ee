//! What a request is to be charged to, once its caller is known.

use crate::assessment::{AssessedRule, Assessment};
use crate::charges::{RuleCharge, RuleCharges};
use crate::{Decided, Oversized, Policy};

/// What the request is to be charged to; nothing if it is denied, costs more than a limit can ever admit, or is charged nowhere.
pub(super) fn rule_charges<'a>(
    policy: &'a Policy,
    decided: &mut Decided,
    assessment: Assessment,
) -> Option<RuleCharges<'a>> {
    decided.access.clone_from(&assessment.access);
    if decided.denied_by().is_some() {
        return None;
    }
    let mut rule_charges = RuleCharges::new();
    let (is_refused, plan) = (decided.refused.is_some(), decided.plan.as_ref());
    for assessed in assessment.rules(policy, is_refused, plan) {
        let AssessedRule {
            index,
            rule,
            limit,
            key,
            cost,
            ..
        } = assessed;
        // A limit that the client is exempt from, or that the client's plan does not have, is not asked.
        let Some(limit) = limit else {
            continue;
        };
        if cost > limit.quota().capacity() {
            if limit.is_observed() {
                continue;
            }
            decided.charged.clear();
            decided.oversized = Some(Oversized { index, cost });
            return None;
        }
        decided.charged.push(index);
        decided.cost = decided.cost.max(cost);
        rule_charges.push(RuleCharge {
            rule,
            limit,
            key,
            cost,
        });
    }
    (!rule_charges.is_empty()).then_some(rule_charges)
}
