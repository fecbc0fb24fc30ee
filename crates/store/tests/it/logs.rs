//! What a sliding window log costs: one entry a request, and no more of it read than a decision needs.

use tidegate_core::SlidingWindowLog;
use tidegate_store::{Charge, Limit, Outcome, RedisStore, Via};
use tidegate_testkit::RedisServer;

use crate::support::{
    HOUR, calls, charge, error_of, exact_store, limit, memory_store, now, quiet_window, redis_store,
};

const LARGEST: u64 = 1_000_000;
/// A list of so many stamps is found under a key whose limit is 10.
const LONG: u64 = 60_000;

fn log(most: u64) -> Limit {
    limit("log", SlidingWindowLog::new(most, HOUR).unwrap())
}

/// Puts so many entries of one stamp under the key.
async fn plant(server: &RedisServer, key: &str, stamp: u64, entries: u64) {
    let text = "for i = 1, ARGV[2] do redis.call('RPUSH', KEYS[1], ARGV[1]) end";
    let (stamp, entries) = (stamp.to_string(), entries.to_string());
    let words = ["EVAL", text, "1", key, &stamp, &entries];
    assert!(!server.command(&words).await.is_error());
}

/// How many commands this decision ran in Redis, in all, and of one kind.
async fn commands_of(
    server: &RedisServer,
    store: &RedisStore,
    charge: Charge<'_>,
) -> (Outcome, u64, u64) {
    let before = calls(server).await;
    let decision = store.decide(&[charge]).await;
    assert_eq!((error_of(&decision), decision.via), (None, Via::Store));
    let after = calls(server).await;
    let sum = after.values().sum::<u64>() - before.values().sum::<u64>();
    let all = after.get("lrange").unwrap_or(&0) - before.get("lrange").unwrap_or(&0);
    (decision.outcome, sum, all)
}

#[tokio::test]
async fn a_request_of_any_cost_is_one_entry() {
    let server = RedisServer::start().await;
    let redis = redis_store(&server).await;
    let limit = limit(
        "dear",
        SlidingWindowLog::new(LARGEST, quiet_window()).unwrap(),
    );
    for store in [memory_store(), redis] {
        let mut told = Vec::new();
        for cost in [500_000, 1, 499_999, 1] {
            let decision = store.decide(&[charge(&limit, 1, cost)]).await;
            let verdict = decision.verdicts[0].unwrap();
            told.push((decision.outcome, verdict.remaining));
        }
        let expected = [
            (Outcome::Admitted, 500_000),
            (Outcome::Admitted, 499_999),
            (Outcome::Admitted, 0),
            (Outcome::Refused, 0),
        ];
        assert_eq!(told, expected);
    }
    let key = charge(&limit, 1, 1).redis_key("tidegate");
    assert_eq!(server.command(&["LLEN", &key]).await.as_int(), 3);
    let bytes = server.command(&["MEMORY", "USAGE", &key]).await.as_int();
    assert!(bytes < 400, "{bytes} bytes");
}

/// Stamps that the first release wrote, one per unit, count on.
#[tokio::test]
async fn a_log_of_the_first_release_goes_on() {
    let server = RedisServer::start().await;
    let store = exact_store(&server).await;
    let ten = log(10);
    let key = charge(&ten, 1, 1).redis_key("tidegate");
    plant(&server, &key, now(), 4).await;
    for (cost, left) in [(3, 3), (1, 2), (2, 0)] {
        let decision = store.decide(&[charge(&ten, 1, cost)]).await;
        assert_eq!(decision.outcome, Outcome::Admitted);
        assert_eq!(decision.verdicts[0].unwrap().remaining, left);
    }
    assert_eq!(server.command(&["LLEN", &key]).await.as_int(), 7);
}

/// Whatever the stamps of a long list are, no script reads all of them.
#[tokio::test]
async fn a_long_list_is_not_read_whole() {
    let server = RedisServer::start().await;
    let store = exact_store(&server).await;
    let ten = log(10);
    // For the script's text.
    store.decide(&[charge(&ten, 0, 1)]).await;
    let now = now();
    let stamps = [
        ("dead", now - 2 * HOUR, Outcome::Admitted),
        ("live", now, Outcome::Refused),
        ("ahead", now + HOUR / 2, Outcome::Refused),
        ("too far ahead", now + 48 * HOUR, Outcome::Refused),
    ];
    for (client, (what, stamp, outcome)) in (1..).zip(stamps) {
        let charge = charge(&ten, client, 2);
        let key = charge.redis_key("tidegate");
        plant(&server, &key, stamp, LONG).await;
        let (told, commands, whole) = commands_of(&server, &store, charge).await;
        assert_eq!(told, outcome, "{what}");
        assert!(commands < 60 && whole == 0, "{what}: {commands}, {whole}");
        // Half of it dead, and half of it live.
        plant(&server, &key, now, LONG).await;
        let (told, commands, whole) = commands_of(&server, &store, charge).await;
        assert_eq!(told, Outcome::Refused, "{what}");
        assert!(commands < 100 && whole == 0, "{what}: {commands}, {whole}");
    }
}
