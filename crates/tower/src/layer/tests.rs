mod chosen;
mod credentials;
mod large_heads;

use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, StatusCode};
use serde_json::{Value, json};
use tidegate_core::{FixedWindow, LeakyBucket, MAX_WINDOW, Rate, TokenBucket};
use tidegate_store::{Charge, Limit, MemoryStore, OnFailure, Outcome, Via};

use super::*;
use crate::{
    Action, MAX_WAITING, Peer, Per, Rule, X_RATELIMIT_LIMIT, X_RATELIMIT_REMAINING,
    X_RATELIMIT_RESET,
};
use tidegate_identity::{
    Client, ClientPlans, ClientSource, Credentials,
    api_keys::{ApiKeys, ListedKey, UnknownKey, hash},
    jwt::{InvalidToken, Signature, TokenKeys, TokenRules, Tokens},
};

const HOME: Option<&str> = Some("192.0.2.1");
const KEY: HeaderName = HeaderName::from_static("x-api-key");

/// A service behind limits of these capacities, each counted per client. Counts the calls of the service.
struct Bench {
    layer: RateLimitLayer,
    called: Arc<AtomicUsize>,
    /// The client in the context of the last request that was forwarded.
    client: Arc<Mutex<Option<Client>>>,
}

/// A limit that admits `capacity` requests.
fn rule(name: &str, capacity: u64, per: &[Per]) -> Rule {
    let quota = FixedWindow::new(capacity, MAX_WINDOW).unwrap();
    Rule::new(Limit::new(name, quota, OnFailure::Local), per)
}

impl Bench {
    fn new(capacities: &[u64]) -> Self {
        let rules = capacities
            .iter()
            .map(|capacity| rule(&format!("limit-of-{capacity}"), *capacity, &[Per::Client]));
        let policy = Policy {
            route: "route".into(),
            rules: rules.collect(),
            ..Policy::default()
        };
        Self::of(policy, Clients::default())
    }

    fn of(policy: Policy, clients: Clients) -> Self {
        Self::with(policy, clients, MemoryStore::default())
    }

    fn with(policy: Policy, clients: Clients, store: MemoryStore) -> Self {
        let store = Store::Memory(Arc::new(store));
        Self {
            layer: RateLimitLayer::new(
                policy,
                Arc::new(clients),
                Hasher::new(""),
                store,
                WaitQueues::default(),
            ),
            called: Arc::default(),
            client: Arc::default(),
        }
    }

    async fn ask(&self, peer: Option<&str>) -> Response<Bytes> {
        self.ask_with(peer, &[]).await
    }

    async fn ask_with(
        &self,
        peer: Option<&str>,
        headers: &[(HeaderName, &str)],
    ) -> Response<Bytes> {
        let (called, client) = (self.called.clone(), self.client.clone());
        let mut service = self
            .layer
            .layer(tower::service_fn(move |request: Request<()>| {
                called.fetch_add(1, Ordering::Relaxed);
                *client.lock().unwrap() = RequestContext::of(&request).client.clone();
                async { Ok(Response::new(Bytes::from_static(b"inner"))) }
            }));
        let mut request = Request::new(());
        if let Some(peer) = peer {
            let address: IpAddr = peer.parse().unwrap();
            let peer = Peer::connected((address, 4711).into());
            request.extensions_mut().insert(RequestContext::new(peer));
        }
        for (name, value) in headers {
            request.headers_mut().append(name, value.parse().unwrap());
        }
        let Ok(response) = service.call(request).await;
        response
    }

    fn client(&self) -> Option<String> {
        Some(self.client.lock().unwrap().as_ref()?.to_string())
    }
}

fn decided(response: &Response<Bytes>) -> &Decided {
    let answered = response.extensions().get::<crate::Answered>().unwrap();
    answered.decided.as_ref().unwrap()
}

#[tokio::test]
async fn what_is_admitted_goes_on_and_comes_back_with_its_decision() {
    let bench = Bench::new(&[100, 2]);
    let response = bench.ask(Some("192.0.2.1")).await;
    assert_eq!(response.body(), "inner");
    assert_eq!(response.headers()[X_RATELIMIT_REMAINING], "1");
    let decided = decided(&response);
    assert_eq!(decided.client.to_string(), "ip:192.0.2.1");
    assert_eq!(decided.tightest, Some(1));
    let decision = decided.decision.as_ref().unwrap();
    assert_eq!(
        (decision.outcome, decision.via),
        (Outcome::Admitted, Via::Store)
    );
    let left = decision.verdicts.iter().flatten();
    assert_eq!(
        left.map(|verdict| verdict.remaining).collect::<Vec<_>>(),
        [99, 1]
    );
}

#[tokio::test]
async fn what_is_refused_never_reaches_the_inner_service() {
    let bench = Bench::new(&[100, 1]);
    bench.ask(Some("192.0.2.1")).await;
    let response = bench.ask(Some("192.0.2.1")).await;
    assert_eq!(bench.called.load(Ordering::Relaxed), 1);
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()[X_RATELIMIT_REMAINING], "0");
    let decided = decided(&response);
    let decision = decided.decision.as_ref().unwrap();
    assert_eq!(decision.outcome, Outcome::Refused);
    assert_eq!(decided.tightest, Some(1));
    let body: Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(body["violated-policies"], json!(["limit-of-1"]));
    // Another client is not affected.
    assert_eq!(bench.ask(Some("192.0.2.2")).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn without_limits_nothing_is_decided_but_the_client_is_named() {
    let bench = Bench::new(&[]);
    let response = bench.ask(Some("192.0.2.1")).await;
    assert_eq!(response.body(), "inner");
    assert!(response.headers().is_empty());
    let decided = decided(&response);
    assert_eq!(decided.client.to_string(), "ip:192.0.2.1");
    assert!(decided.decision.is_none() && decided.tightest.is_none());
}

#[tokio::test]
async fn requests_from_nowhere_share_one_budget() {
    let bench = Bench::new(&[1]);
    assert_eq!(bench.ask(None).await.status(), StatusCode::OK);
    assert_eq!(
        bench.ask(None).await.status(),
        StatusCode::TOO_MANY_REQUESTS
    );
}

#[tokio::test]
async fn the_inner_service_is_told_the_client_where_it_is_to_be_forwarded() {
    let policy = || Policy {
        route: "route".into(),
        rules: [].into(),
        ..Policy::default()
    };
    let clients = Clients {
        forward_client: Some(HeaderName::from_static("x-client")),
        ..Clients::default()
    };
    let bench = Bench::of(policy(), clients);
    bench.ask(HOME).await;
    assert_eq!(bench.client().as_deref(), Some("ip:192.0.2.1"));
    let bench = Bench::of(policy(), Clients::default());
    bench.ask(HOME).await;
    assert_eq!(bench.called.load(Ordering::Relaxed), 1);
    assert_eq!(bench.client(), None);
}

/// Two limits of 2. For the plan `gold`, the first limit has 4, and the second is unlimited.
fn planned() -> Bench {
    let plans = ClientPlans::new(["gold"]);
    let more = FixedWindow::new(4, MAX_WINDOW).unwrap();
    let first = rule("first", 2, &[Per::Client]);
    let first = Rule {
        plans: [Some(Arc::new(first.limit.with_quota(more)))].into(),
        ..first
    };
    let second = Rule {
        plans: [None].into(),
        ..rule("second", 2, &[Per::Client])
    };
    let acme = ListedKey {
        name: "acme".into(),
        sha256: hash(b"acme's key"),
        expires: None,
        plan: plans.called("gold"),
    };
    let key = ClientSource::ApiKey {
        header: KEY,
        keys: ApiKeys::new([acme]),
        unknown: UnknownKey::FallThrough,
    };
    let policy = Policy {
        route: "route".into(),
        rules: [second, first, rule("third", 9, &[Per::Client])].into(),
        ..Policy::default()
    };
    let clients = Clients {
        sources: vec![key, ClientSource::Ip],
        ..Clients::default()
    };
    Bench::of(policy, clients)
}

#[tokio::test]
async fn a_plans_numbers_replace_the_limits_own_and_what_is_unlimited_is_not_asked() {
    let bench = planned();
    let gold = [(KEY, "acme's key")];
    for left in [3, 2, 1, 0] {
        let response = bench.ask_with(HOME, &gold).await;
        assert_eq!(response.headers()[X_RATELIMIT_LIMIT], "4");
        assert_eq!(response.headers()[X_RATELIMIT_REMAINING], left.to_string());
        let decided = decided(&response);
        assert_eq!(decided.plan.as_ref().unwrap().name(), "gold");
        let names: Vec<_> = decided.verdicts().map(|entry| entry.limit.name()).collect();
        assert_eq!(names, ["first", "third"]);
        assert_eq!(decided.tightest, Some(1));
    }
    let response = bench.ask_with(HOME, &gold).await;
    let body: Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(body["violated-policies"], json!(["first"]));
    // A client without a plan has the limits' own numbers.
    for status in [200, 200, 429] {
        let response = bench.ask(HOME).await;
        assert_eq!(response.status(), status);
        assert_eq!(response.headers()[X_RATELIMIT_LIMIT], "2");
    }
}

#[tokio::test]
async fn the_strongest_action_of_the_limits_that_refuse_wins() {
    let action_of = async |actions: &[(Action, u64)]| {
        let rules = actions.iter().enumerate();
        let rules = rules.map(|(index, (action, capacity))| Rule {
            action: *action,
            ..rule(&format!("limit-{index}"), *capacity, &[Per::Client])
        });
        let policy = Policy {
            route: "route".into(),
            rules: rules.collect(),
            ..Policy::default()
        };
        let bench = Bench::of(policy, Clients::default());
        let first = bench.ask(HOME).await;
        assert_eq!(
            decided(&first).action(),
            None,
            "what is admitted has no action"
        );
        decided(&bench.ask(HOME).await).action()
    };
    use Action::{Drop, Reject};
    for (actions, expected) in [
        (&[(Reject, 1)][..], Some(Reject)),
        (&[(Drop, 1)], Some(Drop)),
        (&[(Drop, 1), (Reject, 1)], Some(Drop)),
        (&[(Reject, 1), (Drop, 1)], Some(Drop)),
        (&[(Reject, 1), (Drop, 2)], Some(Reject)),
        (&[(Reject, 2), (Drop, 1)], Some(Drop)),
        (&[(Reject, 2), (Drop, 2)], None),
    ] {
        assert_eq!(action_of(actions).await, expected, "{actions:?}");
    }
}

/// 20,000 requests wait already. A further request that would have to wait is refused without a charge. A request that need not wait is
/// forwarded.
#[tokio::test]
async fn who_finds_no_room_to_wait_is_charged_to_nothing() {
    let hour = 3_600_000_000;
    let rate = Rate {
        count: 1,
        per: hour,
    };
    let queue = Limit::new(
        "queue",
        LeakyBucket::new(5, rate).unwrap(),
        OnFailure::Local,
    );
    let policy = Policy {
        route: "route".into(),
        rules: [
            rule("other", 10, &[Per::Client]),
            Rule::new(queue, [Per::Client]),
        ]
        .into(),
        ..Policy::default()
    };
    let bench = Bench::of(policy, Clients::default());
    assert_eq!(bench.ask(Some("192.0.2.1")).await.status(), StatusCode::OK);
    let others = std::net::IpAddr::from([192, 0, 2, 9]);
    let enforced = bench.layer.0.clone();
    let wait_queues = enforced.wait_queues.clone();
    let full: Vec<_> = (0..MAX_WAITING)
        .map(|_| wait_queues.permit_beyond(others.into()))
        .collect();
    for _ in 0..3 {
        let refused = bench.ask(Some("192.0.2.1")).await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(refused.headers()[RETRY_AFTER], "3600");
    }
    assert_eq!(bench.ask(Some("192.0.2.2")).await.status(), StatusCode::OK);
    assert_eq!(bench.called.load(Ordering::Relaxed), 2);
    drop(full);
    let request = Request::new(());
    let address: IpAddr = "192.0.2.1".parse().unwrap();
    let peer = Peer::connected((address, 4711).into());
    let caller = enforced.clients.identify(peer, request.headers());
    let keys = enforced.hasher.keys(&enforced.policy, &caller, &request);
    let charge = Charge {
        limit: &enforced.policy.rules[0].limit,
        key: keys[0],
        cost: 1,
        origin: None,
    };
    let outlooks = enforced.store.peek(&[charge]).await.unwrap();
    assert_eq!(outlooks[0].verdict.remaining, 9);
}
