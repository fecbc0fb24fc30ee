//! The used units of keys, for limits without holds. The number of a key is its index in a vector.
//!
//! The memory store makes the same decisions more slowly, because it takes locks and looks up keys in a map. A run uses the memory store if
//! a limit of the configuration holds units.

#[cfg(test)]
mod tests;

use smallvec::SmallVec;
use tidegate_core::{Budget, Micros, Quota, State, Verdict, decide};
use tidegate_store::{Decision, Outcome, PerCharge, Via};

use crate::asked::Asked;

/// The used units, by limit and key.
pub(crate) struct UsedKeys {
    limits: Vec<(Quota, Vec<Used>)>,
}

/// The used units of one key.
struct Used {
    state: State,
    /// When the block of the key ends.
    blocked_until: Micros,
    /// The time from which no charge and no block of the key counts any more.
    expires: Micros,
}

impl Used {
    fn fresh(quota: &Quota) -> Self {
        Self {
            state: quota.fresh(),
            blocked_until: 0,
            expires: 0,
        }
    }
}

impl UsedKeys {
    /// Makes full budgets for the limits with these quotas, in the order of the limits' numbers. The limits must have no holds.
    pub(crate) fn new(quotas: impl Iterator<Item = Quota>) -> Self {
        Self {
            limits: quotas.map(|quota| (quota, Vec::new())).collect(),
        }
    }

    /// Reads the state of a key early, so that the state is in the processor's cache when the key is charged.
    pub(super) fn look_ahead(&self, limit: usize, key: usize) {
        let (_, keys) = &self.limits[limit];
        std::hint::black_box(keys.get(key).map(|used| used.expires));
    }

    /// Decides a request, and charges it if it is admitted. `now` must not decrease.
    pub(super) fn decide(&mut self, request: &Asked<'_>, now: Micros) -> Decision {
        let charged = &request.charged;
        let places = || {
            let places = charged.limits.iter().zip(&charged.keys);
            places.map(|(limit, key)| (usize::from(*limit), *key as usize))
        };
        let mut budgets: SmallVec<[Budget<'_>; 2]> = SmallVec::new();
        for (charge, (limit, key)) in charged.charges.iter().zip(places()) {
            let quota = charge.limit.quota();
            let used = self.used(limit, key);
            let state = std::mem::replace(&mut used.state, quota.fresh());
            let mut budget = Budget::new(quota, state, charge.cost.min(quota.capacity()));
            if used.expires <= now {
                budget.state = quota.fresh();
            } else {
                budget.blocked_until = used.blocked_until;
            }
            budget.observed = charge.limit.is_observed();
            budget.block = charge.limit.block();
            budgets.push(budget);
        }
        let mut verdicts = PerCharge::<Verdict>::from_elem(Verdict::default(), budgets.len());
        let admitted = decide(&mut budgets, now, &mut verdicts);
        for ((budget, verdict), (limit, key)) in budgets.into_iter().zip(&verdicts).zip(places()) {
            let used = self.used(limit, key);
            let expires = budget
                .quota
                .expires(&budget.state)
                .max(budget.blocked_until);
            // A refusal charges no units, and never shortens the expiry, as in the memory store.
            used.expires = match admitted && verdict.allowed {
                true => expires,
                false => used.expires.max(expires),
            };
            used.state = budget.state;
            used.blocked_until = budget.blocked_until;
        }
        Decision {
            outcome: match admitted {
                true => Outcome::Admitted,
                false => Outcome::Refused,
            },
            via: Via::Store,
            now,
            verdicts: verdicts.into_iter().map(Some).collect(),
            sources: PerCharge::new(),
            call: None,
        }
    }

    fn used(&mut self, limit: usize, key: usize) -> &mut Used {
        let (quota, keys) = &mut self.limits[limit];
        if key >= keys.len() {
            keys.resize_with(key + 1, || Used::fresh(quota));
        }
        &mut keys[key]
    }

    /// Frees the memory of expired keys.
    pub(super) fn sweep(&mut self, now: Micros) {
        for (quota, keys) in &mut self.limits {
            let over = |used: &&mut Used| used.expires > 0 && used.expires <= now;
            for used in keys.iter_mut().filter(over) {
                *used = Used::fresh(quota);
            }
        }
    }
}
