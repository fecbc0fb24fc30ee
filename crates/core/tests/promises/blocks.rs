//! `block` and observed limits, and their effect on a decision.

use proptest::prelude::*;
use tidegate_core::{Block, Budget, Micros, State, Verdict, decide};

use crate::traffic::{Key, SECOND, cases, quota, start, traffic};

/// One key of a limit with `block`: its state, and the end of its block.
struct Blocking {
    key: Key,
    block: Block,
    until: Micros,
}

impl Blocking {
    fn request(&mut self, cost: u64) -> Verdict {
        let (admitted, mut verdicts) = self.with(cost, None);
        assert_eq!(admitted, verdicts[0].allowed);
        verdicts.remove(0)
    }

    /// Decides one request, together with another limit if there is one.
    fn with(&mut self, cost: u64, other: Option<(&Key, u64)>) -> (bool, Vec<Verdict>) {
        let mut budgets = vec![Budget {
            block: Some(self.block),
            blocked_until: self.until,
            ..Budget::new(&self.key.quota, self.key.state.clone(), cost)
        }];
        budgets.extend(other.map(|(key, cost)| Budget::new(&key.quota, key.state.clone(), cost)));
        let mut verdicts = vec![self.key.ask(1); budgets.len()];
        let admitted = decide(&mut budgets, self.key.now, &mut verdicts);
        self.until = budgets[0].blocked_until;
        self.key.state = budgets.remove(0).state;
        (admitted, verdicts)
    }
}

fn block() -> impl Strategy<Value = Block> {
    let span = prop_oneof![Just(1), Just(SECOND), 1..3_600 * SECOND];
    (span, any::<bool>()).prop_map(|(span, extend)| Block { span, extend })
}

proptest! {
    #![proptest_config(cases(256))]

    /// From the first refusal until the end of the block's span, all requests are refused. Refusals end exactly with the block, or with the
    /// retry-after of the limit itself.
    #[test]
    fn who_exceeds_is_refused_for_the_span(
        quota in quota(), block in block(), now in start(), ops in traffic(60),
    ) {
        let mut one = Blocking { key: Key::new(quota, now), block, until: 0 };
        let mut blocked_until = 0;
        for op in ops {
            let cost = one.key.wait(op);
            let now = one.key.now;
            let alone = one.key.ask(cost);
            let verdict = one.request(cost);
            prop_assert_eq!(verdict.allowed, alone.allowed && now >= blocked_until);
            if verdict.allowed {
                continue;
            }
            if now >= blocked_until || block.extend {
                blocked_until = now + block.span;
            }
            prop_assert_eq!(one.until, blocked_until);
            prop_assert_eq!(verdict.remaining, 0);
            prop_assert_eq!(verdict.retry_after, alone.retry_after.max(blocked_until - now));
            prop_assert!(verdict.reset >= blocked_until - now);
        }
    }

    /// A refusal by another limit starts no block.
    #[test]
    fn only_who_exceeds_this_very_limit_is_blocked(quota in quota(), block in block(), now in start()) {
        let mut one = Blocking { key: Key::new(quota, now), block, until: 0 };
        let mut full = Key::new(quota, now);
        full.charge_all();
        let (admitted, verdicts) = one.with(1, Some((&full, 1)));
        prop_assert!(!admitted && verdicts[0].allowed && !verdicts[1].allowed);
        prop_assert_eq!(one.until, 0);
    }

    /// After a step back of the clock, no key is blocked for longer than the span.
    #[test]
    fn a_block_from_the_future_is_cut(quota in quota(), block in block(), now in start(), ahead in 0..u64::from(u32::MAX)) {
        let mut one = Blocking { key: Key::new(quota, now), block, until: now + block.span + ahead };
        let verdict = one.request(1);
        prop_assert!(!verdict.allowed);
        prop_assert_eq!((one.until, verdict.retry_after), (now + block.span, block.span));
        one.key.now += block.span;
        prop_assert!(one.request(1).allowed);
    }

    /// An observed limit does not affect the other limits. It is charged only for requests that it would have admitted itself.
    #[test]
    fn what_is_observed_decides_nothing(
        enforced in quota(), observed in quota(), now in start(), ops in traffic(60),
    ) {
        let (mut with, mut alone) = (Key::new(enforced, now), Key::new(enforced, now));
        let mut shadow = Key::new(observed, now);
        let mut seen = Key::new(observed, now);
        for op in ops {
            let cost = with.wait(op);
            (alone.now, shadow.now, seen.now) = (with.now, with.now, with.now);
            let cost_seen = cost.min(observed.capacity());
            let mut budgets = [
                Budget::new(&with.quota, with.state.clone(), cost),
                Budget { observed: true, ..Budget::new(&shadow.quota, shadow.state.clone(), cost_seen) },
            ];
            let mut verdicts = [alone.ask(1); 2];
            let admitted = decide(&mut budgets, with.now, &mut verdicts);
            let states = budgets.map(|budget| budget.state);
            [with.state, shadow.state] = states;
            let expected = alone.request(cost);
            prop_assert_eq!(verdicts[0], expected);
            prop_assert_eq!(admitted, expected.allowed);
            let would = if admitted { seen.request(cost_seen) } else { seen.ask(cost_seen) };
            prop_assert_eq!(verdicts[1], would);
            prop_assert_eq!(&shadow.state, &seen.state);
            prop_assert_eq!(&with.state, &alone.state);
        }
    }
}

/// An observed limit may block like any other limit. Its verdict then shows the refusals of an enforced limit.
#[test]
fn what_is_observed_blocks_in_its_own_book() {
    let mut key = Key::new(crate::traffic::fixed(1, SECOND).into(), 5 * SECOND);
    let (span, mut until) = (3 * SECOND, 0);
    for (at, would) in [(5, true), (5, false), (7, false), (8, true)] {
        key.now = at * SECOND;
        let mut budgets = [Budget {
            observed: true,
            block: Some(Block {
                span,
                extend: false,
            }),
            blocked_until: until,
            ..Budget::new(&key.quota, key.state.clone(), 1)
        }];
        let mut verdicts = [key.ask(1)];
        assert!(
            decide(&mut budgets, key.now, &mut verdicts),
            "it refuses nobody"
        );
        assert_eq!(verdicts[0].allowed, would, "at {at}");
        let [budget] = budgets;
        (key.state, until) = (budget.state, budget.blocked_until);
    }
    assert!(matches!(key.state, State::FixedWindow(_)));
}
