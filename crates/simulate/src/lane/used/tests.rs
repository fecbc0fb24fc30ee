use std::rc::Rc;
use std::sync::Arc;

use tidegate_core::{
    Block, FixedWindow, LeakyBucket, Rate, SlidingWindowCounter, SlidingWindowLog, TokenBucket,
};
use tidegate_identity::Client;
use tidegate_store::{Charge, Key, Limit, MemoryStore, OnFailure};
use tidegate_tower::{Per, Rule, RuleCharge};

use super::*;
use crate::charged::Charged;
use crate::tests::Random;

const SECOND: Micros = 1_000_000;

/// A random quota of an algorithm with this window.
fn quota(random: &mut Random, algorithm: u64, window: Micros) -> Quota {
    let capacity = 1 + random.below(12);
    let rate = Rate {
        count: 1 + random.below(5),
        per: (1 + random.below(20)) * SECOND,
    };
    match algorithm {
        0 => TokenBucket::new(capacity, rate).unwrap().into(),
        1 => LeakyBucket::new(capacity, rate).unwrap().into(),
        2 => FixedWindow::new(capacity, window).unwrap().into(),
        3 => SlidingWindowLog::new(capacity, window).unwrap().into(),
        _ => SlidingWindowCounter::new(capacity, window).unwrap().into(),
    }
}

/// A limit, and the same with other numbers.
fn limit(random: &mut Random, name: &str) -> [Arc<Limit>; 2] {
    let algorithm = random.below(5);
    let window = (1 + random.below(20)) * SECOND;
    let mut limit = Limit::new(name, quota(random, algorithm, window), OnFailure::Local);
    if random.below(4) == 0 {
        limit = limit.observed();
    } else if random.below(3) == 0 {
        limit = limit.blocking(Block {
            span: (1 + random.below(30)) * SECOND,
            extend: random.below(2) == 0,
        });
    }
    let changed = limit.with_quota(quota(random, algorithm, window));
    [limit, changed].map(Arc::new)
}

#[test]
fn it_decides_as_the_memory_store_does() {
    let mut random = Random(7);
    let mut outcomes = [0_u32; 2];
    for _ in 0..300 {
        let count = 1 + random.below(3) as usize;
        let limits: Vec<_> = (0..count)
            .map(|nth| limit(&mut random, &format!("limit-{nth}")))
            .collect();
        let rules: Vec<Rule> = limits
            .iter()
            .map(|[limit, _]| Rule::new(limit.clone(), [Per::Client]))
            .collect();
        let store = MemoryStore::new(1 << 20);
        let mut used = UsedKeys::new(limits.iter().map(|[limit, _]| *limit.quota()));
        let mut now = 1_795_000_000 * SECOND;
        for number in 0..200 {
            now += match random.below(20) {
                0 => random.below(60) * SECOND,
                1..6 => 0,
                _ => random.below(SECOND),
            };
            let client = random.below(3) as u8;
            let changed = random.below(8) / 7;
            // Not every request is charged to every limit.
            let first = random.below(count as u64) as usize;
            let charges = (first..count).map(|index| RuleCharge {
                index,
                rule: &rules[index],
                limit: &limits[index][changed as usize],
                key: Key {
                    tag: [client; 16],
                    rest: [0; 16],
                },
                cost: 1 + random.below(4),
                origin: None,
            });
            let request = Asked {
                charged: Rc::new(Charged {
                    client: Client::UserId(client.to_string().into()),
                    charges: charges.collect(),
                    limits: (first..count).map(|index| index as u16).collect(),
                    keys: (first..count).map(|_| u32::from(client)).collect(),
                    lacks: Vec::new(),
                    is_refused: false,
                    asks_cost: false,
                }),
                service: None,
                status: None,
                cost: None,
                is_known: false,
                number,
                id: None,
                attempt: 0,
            };
            let charges: Vec<Charge<'_>> = request
                .charged
                .charges
                .iter()
                .map(RuleCharge::charge)
                .collect();
            let expected = store.decide_at(&charges, now);
            if random.below(50) == 0 {
                used.sweep(now);
            }
            let decision = used.decide(&request, now);
            assert_eq!(decision.outcome, expected.outcome, "{limits:?} at {number}");
            assert_eq!(
                decision.verdicts, expected.verdicts,
                "{limits:?} at {number}"
            );
            outcomes[usize::from(decision.outcome == Outcome::Admitted)] += 1;
        }
    }
    assert!(outcomes.iter().all(|count| *count > 10_000), "{outcomes:?}");
}
