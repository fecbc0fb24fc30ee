//! Slices that lapse, gateways and state that are gone, and clocks that step.

use super::key::{ASK, Ask, TERM, each, each_of, sleep};
use crate::support::{DAY, HOUR, MS, SECOND, every_algorithm, now, quiet_window};

#[tokio::test]
async fn a_slice_that_lapses_was_spent() {
    each(async |mut key| {
        let lent = key
            .ask(Ask {
                cost: 1,
                wanted: 10,
                term: 50 * MS,
                ..ASK
            })
            .await;
        assert_eq!(lent.lapse, lent.now + 50 * MS);
        sleep(60 * MS).await;
        assert_eq!(key.left().await, 89);
        assert_eq!(
            (key.left().await, key.holders().await),
            (89, 0),
            "charged once"
        );
        // What its gateway knows to have spent is part of it.
        let known = Ask {
            call: 2,
            spent: 6,
            unsettled: 6,
            lapse: lent.lapse,
            ..ASK
        };
        assert_eq!(key.ask(known).await.left, 89);
    })
    .await;
}

/// What was spent in a window that is over is nothing to the next one.
#[tokio::test]
async fn a_slice_dies_with_its_fixed_window() {
    each_of(100, 100 * MS, async |mut key| {
        if key.quota.algorithm() != "fixed_window" {
            return;
        }
        sleep(110 * MS - now() % (100 * MS)).await;
        let lent = key
            .ask(Ask {
                cost: 1,
                wanted: 10,
                ..ASK
            })
            .await;
        assert_eq!(lent.lapse % (100 * MS), 0);
        assert_eq!(lent.lapse, lent.now + lent.reset);
        sleep(100 * MS).await;
        let known = Ask {
            spent: 6,
            unsettled: 6,
            kept: 4,
            lapse: lent.lapse,
            ..ASK
        };
        // Nothing of the next window is lent but to a request.
        let lent = key
            .ask(Ask {
                call: 2,
                wanted: 8,
                ..known
            })
            .await;
        assert_eq!((lent.left, lent.out), (100, 0));
        let lent = key
            .ask(Ask {
                call: 3,
                cost: 1,
                wanted: 8,
                ..known
            })
            .await;
        assert_eq!((lent.left, lent.out), (91, 8));
    })
    .await;
}

/// Lapsed long ago: as much of it is left as there would be of any charge of that time.
#[tokio::test]
async fn a_slice_is_charged_when_it_lapsed_and_not_when_that_is_noticed() {
    each_of(100, 400 * MS, async |mut key| {
        key.ask(Ask {
            wanted: 40,
            term: 10 * MS,
            ..ASK
        })
        .await;
        sleep(230 * MS).await;
        let left = key.left().await;
        match key.quota.algorithm() {
            "token_bucket" => assert!((90..=100).contains(&left), "{left}"),
            "sliding_window_log" => assert!(left == 60 || left == 100, "{left}"),
            _ => assert!(left >= 60, "{left}"),
        }
        key.ask(Ask {
            gateway: "two",
            wanted: 40,
            term: 10 * MS,
            ..ASK
        })
        .await;
        sleep(1_000 * MS).await;
        assert_eq!(key.left().await, 100, "{:?}", key.quota);
        // Nothing of it stays.
        sleep(20 * MS).await;
        assert_eq!(key.content().await[1].as_array().len(), 0);
    })
    .await;
}

#[tokio::test]
async fn what_redis_has_forgotten_its_gateway_tells() {
    each(async |mut key| {
        let lent = key
            .ask(Ask {
                cost: 1,
                wanted: 10,
                ..ASK
            })
            .await;
        let [state, slices] = key.names.clone();
        key.redis.command(&["DEL", &state, &slices]).await.unwrap();
        let told = Ask {
            spent: 6,
            unsettled: 6,
            kept: 4,
            lapse: lent.lapse,
            ..ASK
        };
        let lent = key
            .ask(Ask {
                call: 2,
                wanted: 10,
                ..told
            })
            .await;
        assert_eq!((lent.left, lent.out), (100 - 6 - 10, 10));
        // After a reset the state alone is gone.
        key.redis.command(&["DEL", &state]).await.unwrap();
        assert_eq!(key.left().await, 90);
        let told = Ask {
            spent: 9,
            unsettled: 3,
            kept: 7,
            lapse: lent.lapse,
            ..ASK
        };
        let lent = key.ask(Ask { call: 3, ..told }).await;
        assert_eq!((lent.left, lent.out), (100 - 3 - 7, 7));
    })
    .await;
}

/// A gateway that begins anew has forgotten what it had.
#[tokio::test]
async fn what_a_gateway_has_forgotten_was_spent() {
    each(async |mut key| {
        key.ask(Ask { wanted: 10, ..ASK }).await;
        let lent = key
            .ask(Ask {
                session: 8,
                call: 9,
                cost: 1,
                wanted: 4,
                ..ASK
            })
            .await;
        assert_eq!(
            (lent.left, lent.out, key.holders().await),
            (100 - 10 - 1 - 4, 4, 1)
        );
    })
    .await;
}

#[tokio::test]
async fn changed_numbers_apply_to_what_is_lent() {
    each(async |mut key| {
        let (large, window) = (key.quota, quiet_window());
        key.ask(Ask {
            cost: 1,
            wanted: 40,
            ..ASK
        })
        .await;
        let quotas = every_algorithm(30, window);
        let small = quotas
            .iter()
            .find(|quota| quota.algorithm() == large.algorithm());
        key.quota = *small.unwrap();
        let refused = key
            .ask(Ask {
                gateway: "two",
                cost: 1,
                wanted: 5,
                ..ASK
            })
            .await;
        assert_eq!((refused.admitted, refused.left, refused.out), (false, 0, 0));
        let told = Ask {
            call: 2,
            spent: 35,
            unsettled: 35,
            kept: 5,
            ..ASK
        };
        let lent = key.ask(Ask { cost: 1, ..told }).await;
        assert!(!lent.admitted && lent.left == 0);
        assert!(lent.reset <= 3 * 31 * DAY);
    })
    .await;
}

/// A clock that steps back makes no slice lapse later than its term from now, and no key stay for ever.
#[tokio::test]
async fn a_clock_that_stepped_back() {
    each(async |mut key| {
        let [_, slices] = key.names.clone();
        let ahead = now() + 3 * HOUR;
        let field = format!("1 1 0 10 {ahead}");
        key.redis
            .command(&["HSET", &slices, "two", &field])
            .await
            .unwrap();
        assert_eq!(key.left().await, 90);
        let stands = key.redis.command(&["HGET", &slices, "two"]).await.unwrap();
        let lapse: u64 = stands.as_str().rsplit(' ').next().unwrap().parse().unwrap();
        assert!(lapse <= now() + TERM && lapse > now());
    })
    .await;
}

#[tokio::test]
async fn no_key_stays_longer_than_it_matters() {
    each_of(100, 10 * SECOND, async |mut key| {
        let lent = key
            .ask(Ask {
                cost: 1,
                wanted: 10,
                ..ASK
            })
            .await;
        let [_, slices] = key.names.clone();
        let left = key
            .redis
            .command(&["PTTL", &slices])
            .await
            .unwrap()
            .as_int() as u64
            * MS;
        let lapses = lent.lapse - lent.now;
        assert!(
            left + 5 * MS * 100 >= lapses && left <= TERM + 20 * SECOND,
            "{left}"
        );
    })
    .await;
}
