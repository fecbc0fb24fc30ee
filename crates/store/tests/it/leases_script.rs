//! `lua/lease.lua` asked directly: what is lent, and calls that are lost, late, repeated or overtaken.

mod gone;
mod key;
mod waits;

use crate::support::{HOUR, SECOND, now};
use key::{ASK, Ask, TERM, each};

#[tokio::test]
async fn what_is_lent_counts_as_spent_and_what_was_spent_is_charged() {
    each(async |mut key| {
        // A request alone is decided, and leaves no slice.
        let lent = key.ask(Ask { cost: 1, ..ASK }).await;
        assert!(lent.admitted && lent.reset > 0);
        assert_eq!((lent.left, lent.out, key.holders().await), (99, 0, 0));
        // One that another limit has refused is decided, and not charged.
        let checks = Ask {
            gateway: "another",
            checks: true,
            ..ASK
        };
        for (cost, call, admitted) in [(99, 1, true), (100, 2, false)] {
            let lent = key
                .ask(Ask {
                    cost,
                    call,
                    ..checks
                })
                .await;
            assert_eq!((lent.admitted, lent.left), (admitted, 99));
        }
        let lent = key
            .ask(Ask {
                call: 2,
                cost: 1,
                wanted: 10,
                ..ASK
            })
            .await;
        assert_eq!((lent.left, lent.out, lent.retry_after), (88, 10, 0));
        assert!(lent.lapse > lent.now && lent.lapse - lent.now <= TERM);
        assert_eq!(key.left().await, 88);
        // Seven of ten, and all of the rest is kept; then less; then nothing.
        let told = Ask {
            spent: 7,
            unsettled: 7,
            wanted: 10,
            ..ASK
        };
        let lent = key
            .ask(Ask {
                call: 3,
                kept: 3,
                ..told
            })
            .await;
        assert_eq!((lent.left, lent.out), (81, 10));
        let lent = key
            .ask(Ask {
                call: 4,
                unsettled: 0,
                kept: 1,
                wanted: 1,
                ..told
            })
            .await;
        assert_eq!((lent.left, lent.out), (90, 1));
        let lent = key
            .ask(Ask {
                call: 5,
                spent: 8,
                unsettled: 1,
                wanted: 0,
                ..told
            })
            .await;
        assert_eq!((lent.left, lent.out, key.holders().await), (90, 0, 0));
        // More than there is.
        let lent = key
            .ask(Ask {
                call: 6,
                cost: 91,
                ..ASK
            })
            .await;
        assert!(!lent.admitted && lent.retry_after > HOUR && lent.left == 90);
        let lent = key
            .ask(Ask {
                call: 7,
                cost: 90,
                ..ASK
            })
            .await;
        assert!(lent.admitted && lent.retry_after > HOUR && lent.left == 0);
    })
    .await;
}

#[tokio::test]
async fn others_find_a_share_and_small_rests_are_not_split() {
    each(async |mut key| {
        let mut out = Vec::new();
        for gateway in ["one", "two", "three", "four", "five", "six"] {
            let lent = key
                .ask(Ask {
                    gateway,
                    wanted: 80,
                    ..ASK
                })
                .await;
            out.push(lent.out);
        }
        assert_eq!(out, [50, 40, 10, 0, 0, 0]);
        let refused = key
            .ask(Ask {
                gateway: "seven",
                cost: 1,
                ..ASK
            })
            .await;
        assert!(!refused.admitted && refused.retry_after > 0);
        // Who returns something makes room.
        key.ask(Ask { call: 2, ..ASK }).await;
        assert_eq!(key.left().await, 50);
    })
    .await;
}

#[tokio::test]
async fn calls_that_are_late_repeated_or_overtaken_change_nothing() {
    each(async |mut key| {
        key.ask(Ask {
            call: 5,
            cost: 1,
            wanted: 10,
            ..ASK
        })
        .await;
        let before = key.content().await;
        let ask = Ask {
            cost: 1,
            spent: 3,
            unsettled: 3,
            wanted: 40,
            ..ASK
        };
        for call in [4, 5] {
            assert_eq!(key.ask_by(u64::MAX >> 11, Ask { call, ..ask }).await, None);
        }
        assert_eq!(key.ask_by(now() - 1, Ask { call: 6, ..ask }).await, None);
        assert_eq!(key.content().await, before);
        assert!(
            key.ask_by(now() + SECOND, Ask { call: 6, ..ask })
                .await
                .is_some()
        );
    })
    .await;
}

/// A gateway that has heard nothing knows of less than it has, never of more, and says so next time.
#[tokio::test]
async fn a_lost_answer_costs_its_request_and_nothing_else() {
    each(async |mut key| {
        key.ask(Ask { wanted: 10, ..ASK }).await;
        // Lost: seven are settled, one is charged, ten more are lent.
        key.ask(Ask {
            call: 2,
            cost: 1,
            spent: 7,
            unsettled: 7,
            wanted: 20,
            ..ASK
        })
        .await;
        assert_eq!(key.left().await, 100 - 7 - 1 - 20);
        // It keeps nothing, for so it was before it asked; what is settled already is not charged again.
        let lent = key
            .ask(Ask {
                call: 3,
                spent: 7,
                unsettled: 7,
                ..ASK
            })
            .await;
        assert_eq!((lent.left, lent.out), (100 - 7 - 1, 0));
    })
    .await;
}

/// A gateway returns all, the answer is lost, and it tells the same again: nothing is charged a second time.
#[tokio::test]
async fn a_lost_answer_to_the_last_call_charges_nothing_twice() {
    each(async |mut key| {
        let lent = key.ask(Ask { wanted: 10, ..ASK }).await;
        let all = Ask {
            spent: 7,
            unsettled: 7,
            lapse: lent.lapse,
            ..ASK
        };
        for call in 2..5 {
            let lent = key.ask(Ask { call, ..all }).await;
            assert_eq!((lent.left, lent.out), (93, 0), "{:?}", key.quota);
        }
        // What it spends of another slice is charged, and what has been answered leaves nothing.
        let again = Ask {
            call: 6,
            wanted: 10,
            ..all
        };
        assert_eq!(key.ask(again).await.left, 83);
        let more = Ask {
            call: 7,
            spent: 9,
            unsettled: 2,
            ..all
        };
        assert_eq!(key.ask(more).await.left, 91);
        let answered = Ask {
            call: 8,
            spent: 9,
            unsettled: 0,
            ..all
        };
        assert_eq!(key.ask(answered).await.left, 91);
        assert_eq!(key.content().await[1].as_array().len(), 0);
    })
    .await;
}
