//! What Redis may keep of the keys of a client, by the algorithms in Rust.

use tidegate_core::{Budget, KeyHolds, Micros, State, Verdict, decide};
use tidegate_store::{Charge, Decision};

/// What is known of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) state: State,
    /// From when on Redis may have dropped it: what one quota has paid off, another one would count. When it has is not known:
    /// Redis counts in milliseconds, and the time of a script is not that by which it drops keys.
    pub(super) drops: Micros,
    pub(super) blocked_until: u64,
    pub(super) holds: KeyHolds,
    /// The same of what is held.
    pub(super) holds_drop: Micros,
}

/// What is known of all keys of one client.
pub(super) type Keys = Vec<Kept>;

/// Keys, and the same as they are if Redis, whose clock says `at_most` this, has dropped some of those that it may drop.
pub(super) fn dropped_or_not<'a>(
    known: &'a Keys,
    charges: &'a [Charge<'_>],
    at_most: Micros,
) -> impl Iterator<Item = Keys> + 'a {
    let mut uncertain: Vec<(usize, Part)> = Vec::new();
    for (nth, (key, charge)) in known.iter().zip(charges).enumerate() {
        if at_most >= key.drops {
            uncertain.push((nth, Part::State));
        }
        if charge.limit.lease().is_some() && key.holds.last() > 0 && at_most >= key.holds_drop {
            uncertain.push((nth, Part::Holds));
        }
    }
    (0..1_usize << uncertain.len()).map(move |choice| {
        let mut keys = known.clone();
        for (place, (nth, part)) in uncertain.iter().enumerate() {
            if choice >> place & 1 == 0 {
                continue;
            }
            match part {
                Part::State => keys[*nth].state = charges[*nth].limit.quota().fresh(),
                Part::Holds => keys[*nth].holds = KeyHolds::default(),
            }
        }
        keys
    })
}

/// What Redis keeps under a key of its own.
#[derive(Clone, Copy)]
enum Part {
    State,
    Holds,
}

/// What the Rust algorithms say at the time of Redis's decision.
pub(super) fn decide_here(
    decision: &Decision,
    charges: &[Charge<'_>],
    keys: &mut [Kept],
) -> (bool, Vec<Verdict>) {
    let now = decision.now;
    let mut budgets: Vec<Budget<'_>> = charges
        .iter()
        .zip(keys.iter())
        .map(|(charge, key)| Budget {
            observed: charge.limit.is_observed(),
            block: charge.limit.block(),
            blocked_until: key.blocked_until,
            lease: charge.limit.lease(),
            hold: decision.sources[0].hold,
            holds: key.holds.clone(),
            ..Budget::new(charge.limit.quota(), key.state.clone(), charge.cost)
        })
        .collect();
    let none = Verdict {
        allowed: false,
        remaining: 0,
        reset: 0,
        retry_after: 0,
        delay: 0,
        settling: false,
    };
    let mut verdicts = vec![none; budgets.len()];
    let admitted = decide(&mut budgets, now, &mut verdicts);
    for ((key, budget), verdict) in keys.iter_mut().zip(budgets).zip(&verdicts) {
        let drops = budget.quota.expires(&budget.state);
        let holds = budget.lease.is_some() && admitted && verdict.allowed;
        if holds || budget.holds.last() < key.holds.last() && budget.holds.units() > 0 {
            let last = budget.holds.last();
            key.holds_drop = last.max(budget.quota.counts_until(last));
        }
        // A bucket is kept for as long as the quota that refuses needs it.
        let is_refused = budget.quota.is_paced() && !verdict.allowed;
        if admitted && verdict.allowed && !holds || is_refused {
            key.drops = drops;
        } else if key.state != budget.state {
            // Moved, as the clock stepped back.
            key.drops = key.drops.min(drops);
        }
        key.state = budget.state;
        key.blocked_until = budget.blocked_until;
        key.holds = budget.holds;
    }
    (admitted, verdicts)
}
