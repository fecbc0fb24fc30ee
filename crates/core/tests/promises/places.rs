//! `concurrency`: never more at a time than the limit, however places are given back, renewed, lost or left to lapse.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{Concurrency, Hold, HoldId, Micros, Quota, Receipt, State, Verdict};

use crate::traffic::{SECOND, cases, start};

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Begin(u64),
    End,
    Renew,
    /// A renewal that comes after its request has ended.
    RenewLate,
    /// The store loses its data, or is reset.
    Lose,
    /// Time passes, in parts of a lease per mille.
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..4_u64).prop_map(Step::Begin),
        3 => Just(Step::End),
        3 => Just(Step::Renew),
        1 => Just(Step::RenewLate),
        1 => Just(Step::Lose),
        2 => (0..1_500_u64).prop_map(Step::Wait),
    ];
    vec(step, 1..120)
}

/// A limit, its state, and what is known of it.
struct Key {
    quota: Quota,
    lease: Micros,
    state: State,
    now: Micros,
    next: u64,
    /// When the places of each request lapse; some requests have ended.
    lapses: BTreeMap<HoldId, (u64, Micros)>,
}

impl Key {
    fn new(limit: u64, lease: Micros, now: Micros) -> Self {
        let quota = Quota::from(Concurrency::new(limit, lease).unwrap());
        Self {
            quota,
            lease,
            state: quota.fresh(),
            now,
            next: 0,
            lapses: BTreeMap::new(),
        }
    }

    fn taken(&self) -> u64 {
        let live = self.lapses.values().filter(|(_, lapse)| *lapse > self.now);
        live.map(|(units, _)| units).sum()
    }

    /// A request; its hold, if it is admitted.
    fn begin(&mut self, units: u64) -> (Verdict, Option<Hold>) {
        self.next += 1;
        let (id, lease) = (HoldId(self.next), self.lease);
        let mut verdict = self.quota.check(&mut self.state, units, self.now);
        if verdict.allowed {
            self.quota
                .commit_held(&mut self.state, units, id, self.now, &mut verdict);
            self.lapses.insert(id, (units, self.now + lease));
        }
        let hold = Hold { id, units, lease };
        (verdict, verdict.allowed.then_some(hold))
    }

    fn renew(&mut self, hold: Hold) {
        let State::Concurrency(places) = &mut self.state else {
            panic!("{:?} has no places", self.state);
        };
        places.hold(hold, self.now + hold.lease, self.now);
        let renewed = (hold.units, self.now + hold.lease);
        self.lapses.insert(hold.id, renewed);
    }

    fn end(&mut self, hold: Hold) {
        let receipt = Receipt {
            until: 0,
            hold: hold.id,
        };
        self.quota
            .give_back_held(&mut self.state, hold.units, receipt, self.now);
        self.lapses.remove(&hold.id);
    }

    fn lose(&mut self) {
        self.state = self.quota.fresh();
        self.lapses.clear();
    }
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn what_is_taken_is_what_requests_took_and_have_not_given_back(
        limit in 1..12_u64, lease in 1..100 * SECOND, now in start(), steps in steps(), seed in any::<u32>(),
    ) {
        let (mut key, mut seed) = (Key::new(limit, lease, now), seed);
        let (mut running, mut ended): (Vec<Hold>, Vec<Hold>) = (Vec::new(), Vec::new());
        let mut pick = |of: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed as usize % of
        };
        for step in steps {
            match step {
                Step::Begin(units) => {
                    let (units, taken) = (units.min(limit), key.taken());
                    let (verdict, hold) = key.begin(units);
                    prop_assert_eq!(verdict.allowed, taken + units <= limit);
                    if verdict.allowed {
                        prop_assert_eq!((verdict.remaining, verdict.reset), (limit - taken - units, lease));
                    } else {
                        prop_assert_eq!(verdict.retry_after, SECOND);
                    }
                    running.extend(hold);
                }
                Step::End if !running.is_empty() => {
                    let hold = running.swap_remove(pick(running.len()));
                    // Twice is once.
                    key.end(hold);
                    key.end(hold);
                    ended.push(hold);
                }
                Step::Renew if !running.is_empty() => {
                    // Twice is once; and what is missing is taken again.
                    let hold = running[pick(running.len())];
                    key.renew(hold);
                    key.renew(hold);
                }
                Step::RenewLate if !ended.is_empty() => {
                    let hold = ended[pick(ended.len())];
                    key.renew(hold);
                }
                Step::Lose => key.lose(),
                Step::Wait(share) => key.now += lease * share / 1_000,
                _ => {}
            }
            let left = limit.saturating_sub(key.taken());
            prop_assert_eq!(key.quota.check(&mut key.state, 1, key.now).remaining, left);
        }
        // Whatever has happened: once all requests have renewed, as many are taken as are running.
        key.now += lease;
        for hold in &running {
            key.renew(*hold);
        }
        let taken: u64 = running.iter().map(|hold| hold.units).sum();
        let left = limit.saturating_sub(taken);
        prop_assert_eq!(key.quota.check(&mut key.state, 1, key.now).remaining, left);
    }

    /// Its request is running: the place is taken again, beyond the limit if another one has taken it meanwhile.
    #[test]
    fn what_has_lapsed_is_taken_again(limit in 1..12_u64, lease in 1..100 * SECOND, now in start()) {
        let mut key = Key::new(limit, lease, now);
        let first = key.begin(limit).1.unwrap();
        key.now += lease - 1;
        prop_assert!(!key.begin(1).0.allowed);
        key.now += 1;
        let second = key.begin(limit).1.unwrap();
        key.renew(first);
        key.end(second);
        prop_assert!(!key.begin(1).0.allowed);
        key.end(first);
        prop_assert!(key.begin(limit).0.allowed);
    }

    /// After a step back of the clock nobody's place is held for longer than a lease, and no running request loses its own.
    #[test]
    fn a_lapse_too_far_ahead_is_cut(limit in 1..12_u64, lease in 1..100 * SECOND, now in start(), back in 1..100 * SECOND) {
        let mut key = Key::new(limit, lease, now);
        let hold = key.begin(limit).1.unwrap();
        key.now = now - back;
        let (verdict, _) = key.begin(1);
        prop_assert_eq!((verdict.allowed, verdict.reset), (false, lease));
        let cut = key.now + lease;
        key.now = cut - 1;
        key.renew(hold);
        key.now = cut;
        prop_assert!(!key.begin(1).0.allowed);
        key.now = cut - 1 + lease;
        prop_assert!(key.begin(limit).0.allowed);
    }

    /// A gateway with a shorter lease, after a reload, leaves the places of the others as they are.
    #[test]
    fn a_shorter_lease_cuts_no_places_of_a_longer_one(limit in 1..12_u64, lease in 2..100 * SECOND, now in start()) {
        let mut key = Key::new(limit, lease, now);
        let hold = key.begin(limit).1.unwrap();
        key.quota = Quota::from(Concurrency::new(limit, 1).unwrap());
        key.lease = 1;
        prop_assert!(!key.begin(1).0.allowed);
        key.now += lease - 1;
        prop_assert!(!key.begin(1).0.allowed);
        key.renew(hold);
        key.now += lease - 1;
        prop_assert!(!key.begin(1).0.allowed);
    }
}

/// While Redis does not answer, a gateway counts its own places, and beside them what it last knew of those of others.
#[test]
fn others_are_counted_beside_own_places() {
    let mut key = Key::new(10, SECOND, SECOND);
    let hold = key.begin(3).1.unwrap();
    for (all, left) in [(7, 3), (2, 7), (5, 5)] {
        let mut others = key.quota.fresh();
        key.quota.charge(&mut others, all, key.now);
        let (State::Concurrency(places), State::Concurrency(others)) = (&mut key.state, &others)
        else {
            panic!("no places");
        };
        places.count_others(others, key.now);
        let remaining = key.quota.check(&mut key.state, 1, key.now).remaining;
        assert_eq!(remaining, left);
    }
    key.end(hold);
    assert_eq!(key.quota.check(&mut key.state, 1, key.now).remaining, 8);
}
