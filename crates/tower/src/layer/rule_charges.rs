//! What a request is to be charged to, once its caller is known.

use crate::assessment::Assessment;
use crate::charges::RuleCharges;
use crate::{Decided, Policy};
use tidegate_identity::ClientPlan;

/// Returns the charges of a request of a client with this `plan`. A request has none if it is denied, or costs more than a limit can ever
/// admit.
pub(super) fn rule_charges<'a>(
    policy: &'a Policy,
    decided: &mut Decided,
    assessment: Assessment,
    plan: Option<&'a ClientPlan>,
) -> Option<RuleCharges<'a>> {
    decided.access.clone_from(&assessment.access);
    if decided.denied_by().is_some() {
        return None;
    }
    let is_refused = decided.refused.is_some();
    let rule_charges = match assessment.charges(policy, is_refused, plan) {
        Ok(rule_charges) => rule_charges,
        Err(oversized) => {
            decided.oversized = Some(oversized);
            return None;
        }
    };
    for charge in &rule_charges {
        decided.charged.push(charge.index);
        decided.costs.push(charge.cost);
        decided.cost = decided.cost.max(charge.cost);
    }
    (!rule_charges.is_empty()).then_some(rule_charges)
}
