//! Holds. Held units count in addition to used units. They are charged once, however holds end, are renewed, lapse or are lost.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{
    Block, Budget, Concurrency, Hold, HoldId, KeyHolds, Micros, Quota, Verdict, decide,
};

use crate::traffic::{SECOND, cases, fixed, quota, start};

#[derive(Clone, Copy, Debug)]
enum Step {
    Begin(u64),
    /// A request ends, and its end is sent twice. Its real cost is this number of quarters of its held units.
    End(u64),
    Renew,
    /// A renewal or an end of a request that has ended.
    Late,
    /// The store loses its data.
    Lose,
    /// Time passes, in thousandths of a lease.
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1..400_u64).prop_map(Step::Begin),
        4 => (0..8_u64).prop_map(Step::End),
        3 => Just(Step::Renew),
        1 => Just(Step::Late),
        1 => Just(Step::Lose),
        3 => (0..1_500_u64).prop_map(Step::Wait),
    ];
    vec(step, 1..100)
}

/// A key with a model of it: the held units, and a state without holds that is charged when holds end.
struct Key {
    budget: Budget<'static>,
    held: BTreeMap<HoldId, (u64, Micros)>,
    used: Budget<'static>,
    lease: Micros,
    now: Micros,
}

fn budget(quota: Quota) -> Budget<'static> {
    Budget::new(Box::leak(Box::new(quota)), quota.fresh(), 1)
}

impl Key {
    fn new(quota: Quota, lease: Micros, now: Micros) -> Self {
        let (mut held, mut used) = (budget(quota), budget(quota));
        held.lease = Some(lease);
        used.lease = None;
        Self {
            budget: held,
            used,
            held: BTreeMap::new(),
            lease,
            now,
        }
    }

    fn capacity(&self) -> u64 {
        self.budget.quota.capacity()
    }

    /// Charges lapsed holds, like every access to a key.
    fn look(&mut self) {
        let lapsed = self.held.extract_if(.., |_, (_, lapse)| *lapse <= self.now);
        let (mut units, mut last) = (0, 0);
        for (_, (held, lapse)) in lapsed {
            (units, last) = (units + held, last.max(lapse));
        }
        if self.budget.quota.counts_until(last) > self.now {
            self.charge(units);
        }
    }

    fn charge(&mut self, units: u64) {
        let (quota, state) = (self.used.quota, &mut self.used.state);
        if units > 0 {
            quota.check(state, 1, self.now);
            quota.charge(state, units, self.now);
        }
    }

    fn begin(&mut self, cost: u64) -> (Verdict, Hold) {
        self.look();
        let (lease, now) = (self.lease, self.now);
        self.budget.cost = cost;
        self.budget.hold.0 += 1;
        let mut verdicts = [Verdict::default()];
        decide(std::slice::from_mut(&mut self.budget), now, &mut verdicts);
        let (id, units) = (self.budget.hold, cost);
        if verdicts[0].allowed {
            self.held.insert(id, (units, now + lease));
        }
        (verdicts[0], Hold { id, units, lease })
    }

    fn end(&mut self, hold: Hold, used: u64) {
        let is_held = self.held.remove(&hold.id).is_some();
        assert_eq!(self.budget.end(hold.id, used, self.now), is_held);
        assert!(!self.budget.end(hold.id, used, self.now), "it has ended");
        if is_held {
            self.charge(used);
        }
    }

    fn renew(&mut self, hold: Hold) {
        self.budget.holds.take(hold, self.now);
        self.held
            .insert(hold.id, (hold.units, self.now + hold.lease));
    }

    fn units(&self) -> u64 {
        self.held.values().map(|(units, _)| units).sum()
    }

    fn left(&mut self) -> u64 {
        self.budget.cost = 1;
        self.budget.check(self.now).remaining
    }
}

fn concurrency(limit: u64, lease: Micros) -> Quota {
    Concurrency::new(limit, lease).unwrap().into()
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn what_is_used_and_held_is_at_most_the_capacity(
        quota in prop_oneof![4 => quota(), 1 => (1..12_u64).prop_map(|most| concurrency(most, SECOND))],
        lease in 1..100 * SECOND, now in start(), steps in steps(), seed in any::<u32>(),
    ) {
        let mut key = Key::new(quota, lease, now);
        let charges = quota.lease().is_none();
        let (mut running, mut ended): (Vec<Hold>, Vec<Hold>) = (Vec::new(), Vec::new());
        let mut seed = seed;
        let mut pick = |of: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed as usize % of
        };
        for step in steps {
            match step {
                Step::Begin(share) => {
                    let cost = (key.capacity() * share / 1_000).max(1);
                    let (verdict, hold) = key.begin(cost);
                    let left = quota.check(&mut key.used.state, 1, key.now).remaining;
                    let held = key.units() - if verdict.allowed { cost } else { 0 };
                    prop_assert_eq!(verdict.allowed, held + cost <= left, "{} held, {} left", held, left);
                    let settling = charges && !verdict.allowed && cost <= left;
                    prop_assert_eq!(verdict.settling, settling);
                    prop_assert_eq!(verdict.remaining, left.saturating_sub(key.units()));
                    if verdict.allowed {
                        running.push(hold);
                    } else {
                        // The expected verdict is the verdict if all held units were charged now.
                        let mut all = quota.fresh();
                        all.clone_from(&key.budget.state);
                        if key.units() > 0 {
                            quota.charge(&mut all, key.units(), key.now);
                        }
                        let exact = quota.check(&mut all, cost, key.now).retry_after;
                        let rounded = verdict.retry_after + 3;
                        prop_assert!(!charges || rounded >= exact.min(quota.period()), "{verdict:?}, {exact}");
                    }
                }
                Step::End(quarters) if !running.is_empty() => {
                    let hold = running.swap_remove(pick(running.len()));
                    let used = if charges { hold.units * quarters / 4 } else { 0 };
                    key.end(hold, used);
                    ended.push(hold);
                }
                Step::Renew if !running.is_empty() => {
                    // A second renewal has no effect. A renewal takes a missing hold again.
                    let hold = running[pick(running.len())];
                    key.look();
                    key.left();
                    key.renew(hold);
                    key.renew(hold);
                }
                Step::Late if !ended.is_empty() => {
                    let hold = ended[pick(ended.len())];
                    key.look();
                    key.left();
                    key.end(hold, hold.units);
                }
                Step::Lose => {
                    let (lease, now) = (key.lease, key.now);
                    let hold = key.budget.hold;
                    key = Key::new(quota, lease, now);
                    key.budget.hold = hold;
                }
                Step::Wait(share) => key.now += lease * share / 1_000,
                _ => {}
            }
            key.look();
            let left = key.left();
            prop_assert_eq!(&key.budget.state, &key.used.state);
            prop_assert_eq!(key.budget.holds.units(), key.units());
            prop_assert!(left <= key.capacity().saturating_sub(key.units()));
        }
        // After any steps, once all requests have renewed, exactly the units of running requests are held.
        for hold in &running {
            key.renew(*hold);
        }
        let units: u64 = running.iter().map(|hold| hold.units).sum();
        prop_assert_eq!(key.budget.holds.units(), units);
    }

    /// After a step back of the clock, no hold lasts for longer than a lease, and no running request loses its hold.
    #[test]
    fn a_lapse_too_far_ahead_is_cut(limit in 1..12_u64, lease in 1..100 * SECOND, now in start(), back in 1..100 * SECOND) {
        let mut key = Key::new(concurrency(limit, lease), lease, now);
        let hold = key.begin(limit).1;
        key.now = now - back;
        prop_assert!(!key.begin(1).0.allowed);
        let cut = key.now + lease;
        key.now = cut - 1;
        key.renew(hold);
        key.now = cut;
        prop_assert!(!key.begin(1).0.allowed);
        key.now = cut - 1 + lease;
        prop_assert!(key.begin(limit).0.allowed);
    }

    /// A gateway that has a shorter lease after a reload does not shorten the holds of other gateways.
    #[test]
    fn a_shorter_lease_cuts_no_holds_of_a_longer_one(limit in 1..12_u64, lease in 2..100 * SECOND, now in start()) {
        let mut key = Key::new(concurrency(limit, lease), lease, now);
        key.begin(limit);
        key.budget.lease = Some(1);
        prop_assert!(!key.begin(1).0.allowed);
        key.now += lease - 1;
        prop_assert!(!key.begin(1).0.allowed);
    }
}

/// While Redis does not answer, a gateway counts its own holds and the last known holds of other gateways.
#[test]
fn others_are_counted_beside_own_holds() {
    let mut holds = KeyHolds::default();
    let (id, units, lease) = (HoldId(7), 3, SECOND);
    holds.take(Hold { id, units, lease }, SECOND);
    for (all, sum) in [(7, 7), (2, 3), (5, 5)] {
        holds.count_others(all, SECOND, SECOND);
        assert_eq!(holds.units(), sum, "{all} in all");
        assert!(holds.has(id));
    }
}

/// The limit allows five failed requests. While five are undecided, a sixth is refused without a block. After five failures, a sixth is
/// refused and starts a block.
#[test]
fn only_what_may_still_come_to_nothing_is_waited_for() {
    let now = 7_200 * SECOND;
    let mut key = Key::new(fixed(5, 3_600 * SECOND).into(), SECOND, now);
    let (span, extend) = (60 * SECOND, false);
    key.budget.block = Some(Block { span, extend });
    let mut holds = [(); 5].map(|()| key.begin(1).1);
    let sixth = key.begin(1).0;
    assert_eq!((sixth.allowed, sixth.settling), (false, true));
    key.end(holds[0], 0);
    let again = key.begin(1);
    assert!(again.0.allowed, "one has succeeded, and nothing is blocked");
    holds[0] = again.1;
    for hold in holds {
        key.end(hold, 1);
    }
    let late = key.begin(1).0;
    assert_eq!((late.allowed, late.settling), (false, false));
    assert_eq!(key.budget.blocked_until, now + span);
}
