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
        for modes in [["exact"; 4], ["local"; 4], ["exact", "exact", "local", "local"]] {
            let nth = |name: &str| ACTIONS.iter().position(|(known, _)| *known == name);
            let limit = |(name, action)| {
                let mode = modes[nth(name).unwrap()];
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
                let user = format!("user-{used}-{}", modes.concat());
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
                assert_eq!(fate(&bench, &user).await, expected, "{modes:?}, used: {used:04b}");
            }
            bench.stop().await;
        }
    })
    .await;
}

/// A limit of a minute refuses beside a limit of an hour.
#[tokio::test]
async fn a_refusal_says_the_longest_wait_whatever_the_modes() {
    let pairs = ["exact", "local", "leased"]
        .map(|first| ["exact", "local"].map(|second| (first, second, format!("{first}-{second}"))));
    let pairs = pairs.as_flattened();
    let limits = pairs.iter().map(|(first, second, pair)| {
        format!(
            "
  minute-{pair}: {{ token_bucket: {{ capacity: 1, refill: 1/m }}, mode: {first} }}
  hour-{pair}: {{ token_bucket: {{ capacity: 1, refill: 1/h }}, mode: {second} }}"
        )
    });
    let routes = pairs.iter().map(|(_, _, pair)| {
        let route = |path: &str, limits: &str| {
            format!("  - {{ path: /{path}-{pair}, upstream: UPSTREAM, limits: [{limits}] }}\n")
        };
        let (minute, hour) = (format!("minute-{pair}"), format!("hour-{pair}"));
        let both = format!("{minute}, {hour}");
        route("minute", &minute) + &route("hour", &hour) + &route("both", &both)
    });
    let (limits, routes): (String, String) = (limits.collect(), routes.collect());
    let redis = RedisServer::start().await;
    let store = format!(
        "store: {{ redis: {{ url: \"{}\", timeout: 5s }} }}",
        redis.url()
    );
    let bench = Bench::start(&format!("{store}\nlimits:{limits}\nroutes:\n{routes}")).await;
    for (.., pair) in pairs {
        for path in ["minute", "hour", "minute"] {
            bench.client.get(&format!("/{path}-{pair}")).await;
        }
        let answer = bench.client.get(&format!("/both-{pair}")).await;
        let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
        assert_eq!(answer.status, 429);
        assert!(wait > 3_000, "{pair}: {wait} s");
    }
    bench.stop().await;
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
