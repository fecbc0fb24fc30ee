//! The secret that gateways on one Redis share: configured for all, or made by the first and found by the others.

use tidegate_testkit::{Client, RedisServer, Upstream};

use crate::callers::{SHARED, ask, keys, limit_keys, shared_secret};
use crate::kit::{get, number, page, ready, sample, until};
use crate::support::{GatewayProcess, TestGateway};

/// The gateways of these tests: what follows the `secret`.
fn yaml(redis: &RedisServer, secret: &str, on_failure: &str, upstream: &Upstream) -> String {
    format!(
        "
store: {{ redis: {{ url: \"{}\", timeout: 5s, on_failure: {on_failure} }} }}
{secret}
limits:
  own: {{ fixed_window: {{ limit: 10, window: 31d }} }}
routes:
  - {{ path: /**, upstream: \"{}\", limits: [own] }}
",
        redis.url(),
        upstream.url()
    )
}

/// What is left after a GET; none: it was not admitted, or nothing is told.
async fn left(gateway: &TestGateway) -> Option<u64> {
    let answer = ask(&Client::new(gateway.address), "/", &[]).await;
    number(&answer, "x-ratelimit-remaining").filter(|_| answer.status == 200)
}

#[tokio::test]
async fn gateways_without_a_secret_make_one_and_share_their_budgets() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let yaml = yaml(&redis, "", "closed", &upstream);
    // Whichever is first, over and over.
    for round in 0..12 {
        redis.command(&["FLUSHALL"]).await;
        let gateways = tokio::join!(
            TestGateway::start(&yaml),
            TestGateway::start(&yaml),
            TestGateway::start(&yaml)
        );
        let gateways = [gateways.0, gateways.1, gateways.2];
        for remaining in (0..10).rev() {
            let gateway = &gateways[remaining % 3];
            let remaining = u64::try_from(remaining).unwrap();
            assert_eq!(left(gateway).await, Some(remaining), "in round {round}");
        }
        for gateway in &gateways {
            let refused = get(&Client::new(gateway.address), "/", &[]).await;
            assert_eq!(refused, 429, "in round {round}");
        }
        assert_eq!(limit_keys(&redis).await.len(), 1, "in round {round}");
        for gateway in gateways {
            gateway.stop().await;
        }
    }
}

#[tokio::test]
async fn every_redis_gets_another_secret_of_full_length() {
    let upstream = Upstream::ok();
    let mut made = Vec::new();
    for _ in 0..2 {
        let redis = RedisServer::start().await;
        let gateway = TestGateway::start(&yaml(&redis, "", "closed", &upstream)).await;
        let found = shared_secret(&redis).await.unwrap();
        let digits = found.strip_prefix("secret ").unwrap().to_owned();
        assert_eq!(digits.len(), 64, "{digits}");
        assert!(digits.bytes().all(|b| b.is_ascii_hexdigit()));
        assert_eq!(keys(&redis).await, SHARED);
        made.push(digits);
        gateway.stop().await;
    }
    assert_ne!(made[0], made[1]);
}

/// A gateway that counts under another secret than the first one does not count in Redis at all.
async fn disagree(first: &str, second: &str) {
    for (on_failure, status) in [("local", 200), ("open", 200), ("closed", 503)] {
        let redis = RedisServer::start().await;
        let upstream = Upstream::ok();
        let one = TestGateway::start(&yaml(&redis, first, on_failure, &upstream)).await;
        let two = GatewayProcess::start(&yaml(&redis, second, on_failure, &upstream)).await;
        assert_eq!(left(&one).await, Some(9));
        let why = ready(two.admin, 503).await;
        assert!(why.contains("`secret`"), "{why}");
        let stored = shared_secret(&redis).await.unwrap();
        let client = Client::new(two.address);
        let before = keys(&redis).await;
        for spent in 1..=3_u64 {
            let answer = ask(&client, "/", &[]).await;
            assert_eq!(answer.status, status, "{on_failure}");
            // Half of the budget is this process's own, for there are two, or there is none.
            let told = (on_failure == "local").then(|| 5 - spent);
            assert_eq!(
                number(&answer, "x-ratelimit-remaining"),
                told,
                "{on_failure}"
            );
        }
        assert_eq!(keys(&redis).await, before, "it was not counted in Redis");
        assert_eq!(shared_secret(&redis).await, Some(stored.clone()));
        // The first goes on, and neither tells any secret.
        assert_eq!(left(&one).await, Some(8));
        assert_eq!(page(one.admin, "/readyz").await.0, 200);
        let (_, metrics) = page(two.admin, "/metrics").await;
        let differs = "tidegate_store_errors_total{error=\"secret_differs\"}";
        assert_eq!(sample(two.admin, differs).await, 3);
        let told = [&why[..], &metrics, &two.process.output().join("\n")].concat();
        assert!(told.contains("use another `secret`"), "{told}");
        for secret in [
            "first-planted",
            "second-planted",
            stored.split_once(' ').unwrap().1,
        ] {
            assert!(!told.contains(secret), "{secret} is told:\n{told}");
            let is_made = stored.starts_with("secret ");
            assert!(is_made || !stored.contains("planted"), "{stored}");
        }
        one.stop().await;
    }
}

#[tokio::test]
async fn a_gateway_with_another_secret_or_none_does_not_join_and_follows_on_failure() {
    let (first, second) = ("secret: first-planted", "secret: second-planted");
    tokio::join!(
        disagree(first, second),
        disagree("", second),
        disagree(first, "")
    );
}

/// Redis comes up after two gateways did, which decide by `on_failure` until then.
async fn late_redis(secret: &str) {
    let redis = RedisServer::start().await;
    redis.stop();
    let upstream = Upstream::ok();
    let yaml = yaml(&redis, secret, "closed", &upstream);
    let (one, two) = tokio::join!(TestGateway::start(&yaml), TestGateway::start(&yaml));
    for gateway in [&one, &two] {
        assert_eq!(page(gateway.admin, "/readyz").await.0, 503);
        assert_eq!(get(&Client::new(gateway.address), "/", &[]).await, 503);
    }
    redis.restart().await;
    for gateway in [&one, &two] {
        ready(gateway.admin, 200).await;
    }
    for remaining in (5..10).rev() {
        assert_eq!(
            left([&one, &two][remaining % 2]).await,
            u64::try_from(remaining).ok()
        );
    }
    assert_eq!(limit_keys(&redis).await.len(), 1);
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn gateways_that_start_without_redis_share_when_it_is_there() {
    late_redis("").await;
    late_redis("secret: the same for both").await;
}

/// Redis is emptied while two gateways run: they bring back what they share, and a third finds it.
async fn emptied(secret: &str) {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let yaml = yaml(&redis, secret, "closed", &upstream);
    let (one, two) = tokio::join!(TestGateway::start(&yaml), TestGateway::start(&yaml));
    assert_eq!(left(&one).await, Some(9));
    let before = shared_secret(&redis).await;
    assert!(before.is_some());
    redis.command(&["FLUSHALL"]).await;
    assert_eq!(left(&one).await, Some(9), "the budgets are new");
    assert_eq!(left(&two).await, Some(8), "and shared as before");
    until("the secret is brought back", async || {
        shared_secret(&redis).await.is_some()
    })
    .await;
    assert_eq!(shared_secret(&redis).await, before);
    let three = TestGateway::start(&yaml).await;
    for (gateway, remaining) in [(&three, 7), (&two, 6), (&one, 5), (&three, 4)] {
        assert_eq!(left(gateway).await, Some(remaining));
    }
    assert_eq!(limit_keys(&redis).await.len(), 1);
    for gateway in [one, two, three] {
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_redis_that_was_emptied_gets_the_same_secret_back() {
    tokio::join!(emptied(""), emptied("secret: the same for all"));
}
