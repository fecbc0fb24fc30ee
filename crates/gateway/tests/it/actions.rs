//! Limits with different actions, modes and failure policies on one request: the strongest refusing action wins, and each
//! limit follows its own policy.

use std::time::Duration;

use http::Request;
use tidegate_testkit::{Client, RedisServer, body};

use crate::kit::{Bench, exact, get, on_both_stores, sample, until};

const ACTIONS: [(&str, &str); 4] = [
    ("drops", "drop"),
    ("rejects", "reject"),
    ("delays", "{ delay: { max: 1h } }"),
    ("observes", "observe"),
];

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered(u16),
    Dropped,
    Waits,
}

/// All subsets of four, as bits.
fn subsets() -> impl Iterator<Item = usize> {
    0..1 << 4
}

fn has(subset: usize, nth: usize) -> bool {
    subset & 1 << nth != 0
}

#[tokio::test]
async fn the_strongest_action_of_those_that_refuse_wins() {
    on_both_stores(async |store| {
        for mode in ["exact", "local"] {
            let limit = |(name, action)| {
                format!(
                    "  {name}: {{ token_bucket: {{ capacity: 1, refill: 2/h }}, action: {action}, mode: {mode} }}\n"
                )
            };
            let route = |(name, _)| {
                format!("  - {{ path: /{name}, upstream: UPSTREAM, limits: [{name}] }}\n")
            };
            let limits: String = ACTIONS.map(limit).concat();
            let routes: String = ACTIONS.map(route).concat();
            let bench = Bench::start(&format!(
                "
{store}
trusted_proxies: [127.0.0.1]
clients: [{{ user_id: {{}} }}]
limits:
{limits}
routes:
{routes}
  - {{ path: /all, upstream: UPSTREAM, limits: [observes, delays, rejects, drops] }}
"
            ))
            .await;
            for used in subsets() {
                let user = format!("user-{used}");
                let headers = [("x-user-id", &*user)];
                for (nth, (name, _)) in ACTIONS.iter().enumerate() {
                    if has(used, nth) {
                        let status = get(&bench.client, &format!("/{name}"), &headers).await;
                        assert_eq!(status, 200);
                    }
                }
                let expected = match () {
                    () if has(used, 0) => Fate::Dropped,
                    () if has(used, 1) => Fate::Answered(429),
                    () if has(used, 2) => Fate::Waits,
                    () => Fate::Answered(200),
                };
                assert_eq!(fate(&bench, &user).await, expected, "{mode}, used: {used:04b}");
            }
            bench.stop().await;
        }
    })
    .await;
}

/// What becomes of this user's request to all.
async fn fate(bench: &Bench, user: &str) -> Fate {
    let request = Request::get("/all").header("x-user-id", user);
    let request = request.body(body::empty()).unwrap();
    let client = Client::fresh(bench.gateway.address);
    let mut asking = tokio::spawn(async move { client.try_request(request).await.ok() });
    let admin = bench.gateway.admin;
    let waits = until("it waits", async || {
        sample(admin, "tidegate_waiting_requests").await == 1
    });
    let fate = tokio::select! {
        answer = &mut asking => match answer.unwrap() {
            Some(answer) => Fate::Answered(answer.status.as_u16()),
            None => Fate::Dropped,
        },
        () = waits => Fate::Waits,
    };
    asking.abort();
    until("it has left", async || {
        sample(admin, "tidegate_waiting_requests").await == 0
    })
    .await;
    fate
}

const POLICIES: [(&str, &str); 5] = [
    ("closed", "on_failure: closed"),
    ("open", "on_failure: open"),
    ("local", "on_failure: local"),
    ("watched", "on_failure: closed, action: observe"),
    // It needs no store, and so does not miss it.
    ("here", "on_failure: closed, mode: local"),
];

#[tokio::test]
async fn without_a_store_each_limit_follows_its_own_policy() {
    let redis = RedisServer::start().await;
    let limit = |(name, policy)| {
        format!(
            "  {name}: {{ fixed_window: {{ limit: 1, window: 31d }}, {policy}, per: [client, route] }}\n"
        )
    };
    let limits: String = POLICIES.map(limit).concat();
    let routes: String = (0..1 << POLICIES.len())
        .map(|listed| {
            let names = POLICIES.iter().enumerate();
            let names = names.filter(|(nth, _)| has(listed, *nth));
            let names: Vec<_> = names.map(|(_, (name, _))| *name).collect();
            let names = names.join(", ");
            format!("  - {{ path: /{listed}, upstream: UPSTREAM, limits: [{names}] }}\n")
        })
        .collect();
    let store = exact(&redis).replace("timeout: 5s", "timeout: 100ms");
    let yaml = format!("{store}limits:\n{limits}routes:\n{routes}");
    let bench = Bench::start(&yaml).await;
    redis.stop();
    // Until it is known that nobody answers.
    until("it is noticed", async || {
        bench.client.get("/1").await.status == 503
    })
    .await;
    for listed in 0..1 << POLICIES.len() {
        let is_closed = has(listed, 0);
        let counts_here = has(listed, 2) || has(listed, 4);
        let expected = match () {
            () if is_closed => [503, 503],
            () if counts_here => [200, 429],
            () => [200, 200],
        };
        let mut told = [0; 2];
        for status in &mut told {
            *status = get(&bench.client, &format!("/{listed}"), &[]).await;
        }
        assert_eq!(told, expected, "{listed:05b}");
    }
    let stopping = tokio::time::timeout(Duration::from_secs(20), bench.stop());
    stopping.await.unwrap();
}
