//! A key whose time to live was taken away, or is absurdly long, gets one again from whatever script meets it next.

use std::time::Duration;

use tidegate_core::Block;
use tidegate_store::{Limit, Mode, Outcome};
use tidegate_testkit::{RedisServer, Reply};

use crate::support::{
    HOUR, PATIENCE, SECOND, calls, charge, connect, every_algorithm, exact_store, lendable, limit,
    wait_for,
};
use crate::synced_kit::{Gateway, leaves, quotas};

/// Longer than anything that a limit of an hour needs, and reservations of a minute, in ms.
const LONGEST: i64 = (4 * 60 + 3) * 60 * 1_000;
const YEAR: &str = "31536000000";

/// All keys of limits, without their time to live, or with one of a year.
async fn spoil(server: &RedisServer, with: &[&str]) -> Vec<String> {
    let reply = server.command(&["KEYS", "tidegate:{*"]).await;
    let keys: Vec<String> = reply
        .as_array()
        .iter()
        .map(|key| key.as_str().to_owned())
        .collect();
    for key in &keys {
        let words: Vec<&str> = [with[0], key]
            .into_iter()
            .chain(with[1..].iter().copied())
            .collect();
        assert_eq!(server.command(&words).await, Reply::Int(1), "{key}");
    }
    keys
}

const WAYS: [&[&str]; 2] = [&["PERSIST"], &["PEXPIRE", YEAR]];

/// Each of them has a time to live again, or is gone.
async fn are_sound(server: &RedisServer, keys: &[String]) {
    for key in keys {
        let left = server.command(&["PTTL", key]).await.as_int();
        let is_sound = left == -2 || (0..=LONGEST).contains(&left);
        assert!(is_sound, "{key} lives for {left} ms");
    }
}

/// Limits of all algorithms, and each with a block, and with reservations.
fn limits() -> Vec<Limit> {
    let quotas = every_algorithm(3, HOUR);
    let span = HOUR;
    let plain = quotas.map(|quota| limit("plain", quota));
    let blocks = quotas.map(|quota| {
        let extend = false;
        limit("blocks", quota).blocking(Block { span, extend })
    });
    // A queue and places are never reserved.
    let reserved = [quotas[0], quotas[2], quotas[3], quotas[4], quotas[5]]
        .map(|quota| limit("reserved", quota).reserving(60 * SECOND));
    plain.into_iter().chain(blocks).chain(reserved).collect()
}

#[tokio::test]
async fn after_a_refusal() {
    let server = RedisServer::start().await;
    let store = exact_store(&server).await;
    for limit in limits() {
        for way in WAYS {
            server.command(&["FLUSHALL"]).await;
            store.decide(&[charge(&limit, 1, 3)]).await;
            // Once for what it blocks.
            store.decide(&[charge(&limit, 1, 1)]).await;
            let keys = spoil(&server, way).await;
            assert!(!keys.is_empty());
            let refused = store.decide(&[charge(&limit, 1, 1)]).await;
            assert_eq!(refused.outcome, Outcome::Refused, "{limit:?}");
            are_sound(&server, &keys).await;
        }
    }
}

/// It was not this limit that refused: nothing is charged to it.
#[tokio::test]
async fn after_a_refusal_by_another_limit_and_after_a_look() {
    let server = RedisServer::start().await;
    let store = exact_store(&server).await;
    let other = limit("other", every_algorithm(3, HOUR)[0]);
    for limit in limits() {
        for way in WAYS {
            server.command(&["FLUSHALL"]).await;
            store.decide(&[charge(&other, 1, 3)]).await;
            store.decide(&[charge(&limit, 1, 1)]).await;
            let keys = spoil(&server, way).await;
            let both = [charge(&limit, 1, 1), charge(&other, 1, 1)];
            assert_eq!(store.decide(&both).await.outcome, Outcome::Refused);
            are_sound(&server, &keys).await;
            let keys = spoil(&server, way).await;
            store.peek(&both).await.unwrap();
            are_sound(&server, &keys).await;
            // And as an observed limit that would refuse.
            let observed = limit.clone().observed();
            server
                .command(&["DEL", &charge(&other, 1, 1).redis_key("tidegate")])
                .await;
            store.decide(&[charge(&observed, 1, 2)]).await;
            let keys = spoil(&server, way).await;
            let decision = store.decide(&[charge(&observed, 1, 3)]).await;
            assert_eq!(decision.outcome, Outcome::Admitted);
            are_sound(&server, &keys).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_call_about_slices() {
    let server = RedisServer::start().await;
    for quota in lendable(30, HOUR) {
        for way in WAYS {
            server.command(&["FLUSHALL"]).await;
            let (one, other) = (
                connect(&server.url(), PATIENCE).await,
                connect(&server.url(), PATIENCE).await,
            );
            let limit = limit("leased", quota).in_mode(Mode::Leased);
            for _ in 0..20 {
                one.decide(&[charge(&limit, 1, 1)]).await;
            }
            let keys = spoil(&server, way).await;
            let before = calls(&server).await["evalsha"];
            // It is asked for more than there is.
            other.decide(&[charge(&limit, 1, 30)]).await;
            assert!(calls(&server).await["evalsha"] > before);
            are_sound(&server, &keys).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_exchange_that_adds_nothing() {
    let server = RedisServer::start().await;
    for quota in quotas(30, HOUR) {
        for way in WAYS {
            server.command(&["FLUSHALL"]).await;
            let gateway = Gateway::start(&server.url(), Duration::from_millis(10)).await;
            let limit = limit("synced", quota).in_mode(Mode::Synced);
            gateway.decide(&[charge(&limit, 1, 30)]).await;
            leaves(&gateway, charge(&limit, 1, 1), 0).await;
            let keys = spoil(&server, way).await;
            assert_eq!(keys.len(), 2);
            let before = gateway.synced_usage().exchanges;
            wait_for("another exchange", async || {
                gateway.decide(&[charge(&limit, 1, 1)]).await;
                (gateway.synced_usage().exchanges > before + 1).then_some(())
            })
            .await;
            are_sound(&server, &keys).await;
        }
    }
}

/// A hold does not write the state of its limit.
#[tokio::test]
async fn after_a_hold() {
    let server = RedisServer::start().await;
    let store = exact_store(&server).await;
    for quota in every_algorithm(3, HOUR)
        .into_iter()
        .filter(|quota| quota.lease().is_none())
    {
        for way in WAYS {
            server.command(&["FLUSHALL"]).await;
            let plain = limit("it", quota);
            let held = plain.clone().reserving(60 * SECOND);
            store.decide(&[charge(&plain, 1, 1)]).await;
            let keys = spoil(&server, way).await;
            let decision = store.decide(&[charge(&held, 1, 1)]).await;
            assert_eq!(decision.outcome, Outcome::Admitted);
            are_sound(&server, &keys).await;
        }
    }
}
