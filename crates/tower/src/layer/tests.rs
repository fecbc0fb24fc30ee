use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::StatusCode;
use serde_json::{Value, json};
use tidegate_core::{FixedWindow, MAX_WINDOW};
use tidegate_store::{Limit, MemoryStore, OnFailure, Via};

use super::*;
use crate::{ClientSource, Per, TrustedProxies, X_RATELIMIT_REMAINING};

/// A service behind limits of these capacities, each counted per client, and how often it was called.
struct Bench {
    layer: RateLimitLayer,
    called: Arc<AtomicUsize>,
}

impl Bench {
    fn new(capacities: &[u64]) -> Self {
        let rules = capacities.iter().map(|capacity| {
            let quota = FixedWindow::new(*capacity, MAX_WINDOW).unwrap();
            let name = format!("limit-of-{capacity}");
            Rule {
                limit: Arc::new(Limit::new(name, quota, OnFailure::Local)),
                per: [Per::Client].into(),
            }
        });
        let policy = Policy {
            route: "route".into(),
            rules: rules.collect(),
        };
        let clients = Clients {
            sources: vec![ClientSource::Ip],
            trusted: TrustedProxies::default(),
            ipv6_prefix: 64,
        };
        let store = Store::Memory(Arc::new(MemoryStore::default()));
        Self {
            layer: RateLimitLayer::new(policy, Arc::new(clients), Hasher::new(""), store),
            called: Arc::default(),
        }
    }

    async fn ask(&self, peer: Option<&str>) -> Response<Bytes> {
        let called = self.called.clone();
        let mut service = self.layer.layer(tower::service_fn(move |_: Request<()>| {
            called.fetch_add(1, Ordering::Relaxed);
            async { Ok(Response::new(Bytes::from_static(b"inner"))) }
        }));
        let mut request = Request::new(());
        if let Some(peer) = peer {
            let address: IpAddr = peer.parse().unwrap();
            request
                .extensions_mut()
                .insert(Peer((address, 4711).into()));
        }
        let Ok(response) = service.call(request).await;
        response
    }
}

fn decided(response: &Response<Bytes>) -> &Decided {
    response.extensions().get().unwrap()
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
    // Another client is no worse off.
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
