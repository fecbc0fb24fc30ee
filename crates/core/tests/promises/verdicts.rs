//! The meaning of every verdict, for every algorithm.

use proptest::prelude::*;
use tidegate_core::{Budget, Micros, Quota, State, Verdict, decide};

use crate::traffic::{Key, cases, quota, start, traffic};

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn a_refused_request_changes_nothing_that_a_later_decision_sees(
        quota in quota(), now in start(), ops in traffic(60),
    ) {
        let mut with = Key::new(quota, now);
        let mut without = Key::new(quota, now);
        for op in ops {
            let (cost, verdict) = with.meet(op);
            without.now = with.now;
            if verdict.allowed {
                let mut again = without.quota.check(&mut without.state, cost, without.now);
                prop_assert!(again.allowed);
                without.quota.commit(&mut without.state, cost, without.now, &mut again);
                prop_assert_eq!(again, verdict);
            }
            prop_assert_eq!(with.ask(1), without.ask(1));
            prop_assert_eq!(with.quota.expires(&with.state), without.quota.expires(&without.state));
        }
    }

    #[test]
    fn a_refused_request_fits_at_its_retry_after_and_not_a_microsecond_before(
        quota in quota(), now in start(), ops in traffic(60),
    ) {
        let mut key = Key::new(quota, now);
        for op in ops {
            let (cost, verdict) = key.meet(op);
            if verdict.allowed {
                prop_assert_eq!(verdict.retry_after, 0);
                continue;
            }
            prop_assert!(verdict.retry_after > 0);
            let at = key.now + verdict.retry_after;
            prop_assert!(!key.ask_at(cost, at - 1).allowed, "{verdict:?} of {cost} fits before that");
            prop_assert!(key.ask_at(cost, at).allowed, "{verdict:?} of {cost} does not fit then");
        }
    }

    #[test]
    fn the_refusal_of_a_cost_gives_the_wait_of_a_larger_one_or_leaves_it_open(
        quota in quota(), now in start(), ops in traffic(60),
    ) {
        let mut key = Key::new(quota, now);
        for op in ops {
            let (cost, smaller) = key.meet(op);
            if smaller.allowed || quota.lease().is_some() {
                continue;
            }
            for larger in [cost + 1, cost.midpoint(quota.capacity()), quota.capacity()] {
                if larger <= cost || larger > quota.capacity() {
                    continue;
                }
                let exact = key.ask(larger).retry_after;
                match quota.wait_of(larger, &smaller) {
                    Some(wait) => prop_assert!(exact <= wait && wait <= exact + 1, "{wait}, {exact}"),
                    None => prop_assert!((smaller.retry_after..=smaller.reset).contains(&exact)),
                }
            }
        }
    }

    #[test]
    fn an_admitted_verdict_says_what_a_check_right_after_says(
        quota in quota(), now in start(), ops in traffic(60),
    ) {
        let mut key = Key::new(quota, now);
        for op in ops {
            let (_, verdict) = key.meet(op);
            let after = key.ask(1);
            prop_assert_eq!((verdict.remaining, verdict.reset), (after.remaining, after.reset));
            prop_assert!(verdict.remaining <= quota.capacity());
            if verdict.allowed {
                prop_assert_eq!(quota.expires(&key.state), key.now + verdict.reset);
            }
        }
    }

    #[test]
    fn remaining_only_falls_at_one_time_and_only_rises_while_nothing_comes(
        quota in quota(), now in start(), ops in traffic(60),
    ) {
        let mut key = Key::new(quota, now);
        let mut last = key.ask(1).remaining;
        for op in ops {
            let cost = key.wait(op);
            let waited = key.ask(cost).remaining;
            prop_assert!(waited >= last, "{last}, later {waited}");
            for _ in 0..3 {
                let before = key.ask(cost);
                let verdict = key.quota.check(&mut key.state, cost, key.now);
                prop_assert_eq!(verdict, before);
                if verdict.allowed {
                    let mut charged = verdict;
                    key.quota.commit(&mut key.state, cost, key.now, &mut charged);
                    prop_assert_eq!(charged.remaining, before.remaining - cost);
                }
            }
            last = key.ask(1).remaining;
        }
    }

    #[test]
    fn after_its_reset_a_key_is_as_new_and_just_before_it_is_not(
        quota in quota(), now in start(), ops in traffic(30),
    ) {
        let mut key = Key::new(quota, now);
        for op in ops {
            let (_, verdict) = key.meet(op);
            let at = key.now + verdict.reset;
            let capacity = quota.capacity();
            let fresh = Key::new(quota, at);
            for cost in [1, capacity] {
                prop_assert_eq!(key.ask_at(cost, at), fresh.ask(cost));
            }
            // A fixed window has an end even if no unit is used.
            let used = verdict.remaining < capacity;
            prop_assert!(!used || verdict.reset > 0);
            if used {
                prop_assert!(key.ask_at(1, at - 1).remaining < capacity);
            }
            let expires = quota.expires(&key.state);
            prop_assert_eq!(key.ask_at(capacity, expires.max(key.now)).allowed, true);
        }
    }

    /// Limits that are decided together have the same verdicts as alone. Either all or none are charged.
    #[test]
    fn several_limits_are_charged_all_or_none(
        first in quota(), second in quota(), now in start(), ops in traffic(60),
    ) {
        let mut keys = [Key::new(first, now), Key::new(second, now)];
        for op in ops {
            let costs = [keys[0].wait(op), keys[1].wait(op)];
            keys[1].now = keys[0].now;
            let alone = [keys[0].ask(costs[0]), keys[1].ask(costs[1])];
            let (admitted, states, verdicts) = together(&keys, costs, keys[0].now);
            prop_assert_eq!(admitted, alone.iter().all(|verdict| verdict.allowed));
            for (index, key) in keys.iter_mut().enumerate() {
                let mut expected = alone[index];
                if admitted {
                    key.quota.commit(&mut key.state, costs[index], key.now, &mut expected);
                }
                prop_assert_eq!(verdicts[index], expected);
                prop_assert_eq!(&states[index], &key.state);
            }
        }
    }
}

fn together(keys: &[Key; 2], costs: [u64; 2], now: Micros) -> (bool, [State; 2], [Verdict; 2]) {
    let budget = |index: usize| {
        let state = keys[index].state.clone();
        Budget::new(&keys[index].quota, state, costs[index])
    };
    let mut budgets = [budget(0), budget(1)];
    let mut verdicts = [blank(&keys[0].quota), blank(&keys[1].quota)];
    let admitted = decide(&mut budgets, now, &mut verdicts);
    (admitted, budgets.map(|budget| budget.state), verdicts)
}

fn blank(quota: &Quota) -> Verdict {
    Key::new(*quota, 0).ask(1)
}
