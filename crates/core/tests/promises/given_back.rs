//! What is given back lets in no more than if it had never been charged; at once, all of it comes back.

use proptest::prelude::*;
use tidegate_core::Quota;

use crate::traffic::{Key, cases, quota, request, start, traffic};

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn what_is_given_back_lets_in_no_more_than_before(
        quota in quota(), now in start(), before in traffic(15), between in traffic(15), after in traffic(15),
    ) {
        // Two keys under the same load, of which one was charged something that was taken back.
        let mut key = Key::new(quota, now);
        for op in before {
            key.meet(op);
        }
        let mut never = key.state.clone();
        let (cost, charged) = key.meet(between[0]);
        let receipt = key.now + charged.reset;
        for (turn, op) in between[1..].iter().chain(&after).enumerate() {
            if turn == between.len() - 1 && charged.allowed {
                quota.give_back(&mut key.state, cost, receipt, key.now);
            }
            let (cost, verdict) = key.meet(*op);
            let without = if verdict.allowed {
                request(&quota, &mut never, cost, key.now)
            } else {
                quota.check(&mut never, cost, key.now)
            };
            prop_assert!(without.allowed || !verdict.allowed, "{verdict:?} where {without:?} were never charged");
            prop_assert!(verdict.remaining <= without.remaining, "{verdict:?}, {without:?}");
        }
    }

    #[test]
    fn at_once_all_of_it_comes_back(quota in quota(), now in start(), before in traffic(15), ops in traffic(2)) {
        let mut key = Key::new(quota, now);
        for op in before {
            key.meet(op);
        }
        let cost = key.wait(ops[0]);
        let untouched = key.ask(1);
        let mut verdict = key.ask(cost);
        prop_assume!(verdict.allowed);
        quota.commit(&mut key.state, cost, key.now, &mut verdict);
        quota.give_back(&mut key.state, cost, key.now + verdict.reset, key.now);
        let again = key.ask(1);
        match quota {
            // Receipts of buckets are rounded: up to two microseconds of the rate are not given back.
            Quota::TokenBucket(_) | Quota::LeakyBucket(_) => {
                prop_assert!(again.reset <= untouched.reset + 2, "{again:?}, {untouched:?}");
                prop_assert!(again.remaining <= untouched.remaining);
            }
            _ => prop_assert_eq!((again.remaining, again.retry_after), (untouched.remaining, untouched.retry_after)),
        }
    }

    /// Long after, when nothing of it counts any more, a receipt is worth nothing.
    #[test]
    fn a_receipt_that_has_ended_takes_nothing_from_others(quota in quota(), now in start(), ops in traffic(20)) {
        let mut key = Key::new(quota, now);
        let (cost, charged) = key.meet(ops[0]);
        let receipt = key.now + charged.reset;
        key.now = receipt;
        for op in ops {
            key.meet(op);
        }
        let before = key.ask(1);
        quota.give_back(&mut key.state, cost, receipt, key.now);
        prop_assert_eq!(key.ask(1), before);
    }
}
