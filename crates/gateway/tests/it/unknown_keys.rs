//! What becomes of API keys that are not listed: the next source, a refusal, or a client each.

use crate::callers::{ask, at, last_client, listed};
use crate::kit::{Bench, number, on_both_stores, sample, shown, tells_of_limits, told};

async fn start(store: &str, unknown: &str) -> Bench {
    Bench::start(&format!(
        "
{store}
trusted_proxies: [127.0.0.1]
clients: [{{ api_key: {{ keys: [{}]{unknown} }} }}, {{ user_id: {{}} }}, {{ ip: {{}} }}]
forward_client: X-Client-Id
limits:
  guard: {{ fixed_window: {{ limit: 100, window: 31d }}, per: [ip] }}
  own: {{ fixed_window: {{ limit: 10, window: 31d }} }}
routes:
  - {{ path: /api, upstream: UPSTREAM, limits: [own, guard] }}
",
        listed("alpha")
    ))
    .await
}

async fn unknown_total(bench: &Bench) -> u64 {
    sample(bench.gateway.admin, "tidegate_unknown_api_keys_total").await
}

async fn fall_through(store: &str, unknown: &str) {
    let bench = start(store, unknown).await;
    assert_eq!(unknown_total(&bench).await, 0);
    let (proxy, stranger) = (at(&bench, 1), at(&bench, 2));
    let key = |key| ("x-api-key", key);
    let user = ("x-user-id", "rider-7");
    for (client, headers, name, left) in [
        (&proxy, &[key("alpha-key"), user][..], "api_key:alpha", 9),
        (&proxy, &[key("other-key"), user], "user_id:rider-7", 9),
        (&stranger, &[key("other-key"), user], "ip:127.0.0.2", 9),
        (&stranger, &[key("another-key")], "ip:127.0.0.2", 8),
        (&stranger, &[], "ip:127.0.0.2", 7),
    ] {
        let answer = ask(client, "/api", headers).await;
        assert_eq!(told(&answer), shown(200, 10, left), "{headers:?}");
        assert_eq!(last_client(&bench), name, "{headers:?}");
    }
    assert_eq!(unknown_total(&bench).await, 3);
    bench.stop().await;
}

#[tokio::test]
async fn by_default_the_next_source_names_who_shows_an_unknown_key() {
    on_both_stores(async |store| fall_through(store, "").await).await;
    fall_through("store: memory", ", unknown: fall_through").await;
}

async fn reject(store: &str) {
    let bench = start(store, ", unknown: reject").await;
    let stranger = at(&bench, 2);
    for (round, key) in (1..).zip(["other-key", "alpha"]) {
        let answer = ask(&stranger, "/api", &[("x-api-key", key)]).await;
        assert_eq!(answer.status, 401, "{key}");
        assert!(!tells_of_limits(&answer), "{answer:?}");
        let challenge = answer.header("www-authenticate").unwrap();
        assert!(challenge.starts_with("ApiKey "), "{challenge}");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        let kind = answer.header("content-type");
        assert_eq!(kind, Some("application/problem+json"));
        let details: serde_json::Value = serde_json::from_str(answer.text()).unwrap();
        assert_eq!(details["error"], "invalid_api_key");
        assert_eq!(details["status"], 401);
        let text = answer.text();
        assert!(!text.contains(&format!("\"{key}")), "{text}");
        assert_eq!(unknown_total(&bench).await, round);
    }
    assert_eq!(bench.upstream.count(), 0);
    // It was charged to nobody, as nothing is under `always`; and none, or an empty one, is no unknown one.
    for (headers, left) in [(&[][..], 9), (&[("x-api-key", "")], 8)] {
        let answer = ask(&stranger, "/api", headers).await;
        assert_eq!(told(&answer), shown(200, 10, left), "{headers:?}");
    }
    let answer = ask(&stranger, "/api", &[("x-api-key", "alpha-key")]).await;
    assert_eq!(told(&answer), shown(200, 10, 9));
    assert_eq!(unknown_total(&bench).await, 2);
    bench.stop().await;
}

#[tokio::test]
async fn reject_answers_401_and_tells_nothing() {
    on_both_stores(reject).await;
}

async fn accept(store: &str) {
    let bench = start(store, ", unknown: accept").await;
    let (here, there) = (at(&bench, 2), at(&bench, 3));
    for (client, key, left) in [
        (&here, "one", 9),
        (&here, "two", 9),
        (&there, "one", 8),
        (&there, "alpha-key", 9),
        (&here, "alpha-key", 8),
        // A key that is spelled like a client is another.
        (&here, "alpha", 9),
        (&here, "api_key:alpha", 9),
    ] {
        let answer = ask(client, "/api", &[("x-api-key", key)]).await;
        assert_eq!(told(&answer), shown(200, 10, left), "{key}");
        let named = last_client(&bench);
        let is_listed = key == "alpha-key";
        assert_eq!(named == "api_key:alpha", is_listed, "{named} for {key}");
        assert_eq!(
            named.starts_with("api_key:unlisted-"),
            !is_listed,
            "{named}"
        );
        assert!(is_listed || !named.contains(key), "{named} tells {key}");
    }
    // None is the address.
    for (headers, left) in [(&[("x-api-key", "")][..], 9), (&[], 8)] {
        let answer = ask(&here, "/api", headers).await;
        assert_eq!(number(&answer, "x-ratelimit-remaining"), Some(left));
        assert_eq!(last_client(&bench), "ip:127.0.0.2");
    }
    // Those that are not listed; an empty one is none.
    assert_eq!(unknown_total(&bench).await, 5);
    bench.stop().await;
}

#[tokio::test]
async fn accept_takes_every_key_for_a_client_that_no_name_is_told_of() {
    on_both_stores(accept).await;
}
