//! When a refused request is to come back.

use super::key::{ASK, Ask, each_of, sleep};
use crate::support::MS;

/// One gateway has borrowed a part of ten and is gone: all of it may be spent. The other has used some, and is refused.
#[tokio::test]
async fn a_refusal_ends_when_what_is_lent_counts_no_longer() {
    each_of(10, 300 * MS, async |mut key| {
        for (lent, used, cost) in [(10, 0, 1), (10, 0, 10), (6, 4, 1), (3, 4, 5), (9, 0, 3)] {
            let what = format!("{lent} lent, {used} used, {cost} asked: {:?}", key.quota);
            let mut call = 0;
            let mut next = || {
                call += 1;
                Ask {
                    call,
                    term: 60 * MS,
                    ..ASK
                }
            };
            // A window may turn before the refusal.
            let refused = loop {
                let names = key.names.clone();
                let words = ["DEL", &names[0], &names[1]];
                key.redis.command(&words).await.unwrap();
                let two = |ask: Ask, cost| Ask {
                    gateway: "two",
                    cost,
                    ..ask
                };
                if used > 0 {
                    key.ask(two(next(), used)).await;
                }
                let mut out = 0;
                for _ in 0..10 {
                    let wanted = lent;
                    let kept = out;
                    let one = Ask {
                        wanted,
                        kept,
                        ..next()
                    };
                    out = key.ask(one).await.out;
                }
                let refused = key.ask(two(next(), cost)).await;
                if !refused.admitted {
                    assert_eq!(out, lent, "{what}");
                    break refused;
                }
            };
            sleep(refused.retry_after).await;
            let again = Ask {
                gateway: "two",
                cost,
                ..next()
            };
            assert!(key.ask(again).await.admitted, "{what}: {refused:?}");
        }
    })
    .await;
}
