//! The cost of counting a request for the metrics and the status page, once when it is decided and once when it ends.

use std::convert::Infallible;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use tidegate_core::{Rate, TokenBucket};
use tidegate_store::{Limit, MemoryStore, OnFailure, Store};
use tidegate_telemetry::metrics::{GatewayMetrics, RouteMetrics};
use tidegate_telemetry::{Door, RequestOutcome};
use tidegate_tower::{
    Answered, Answers, Decided, Hasher, Peer, Per, Policy, RateLimitLayer, RequestContext, Rule,
    WaitQueues,
};
use tower::{Layer as _, Service as _, service_fn};

use crate::clients;
use crate::table::{Figure, Operation, Row, Table};

/// A number of clients whose counters fit into a thread's table of counters.
const FEW: u32 = 100;
/// A number of clients whose counters do not fit into a thread's table of counters, so new counters replace the counters of other clients.
const MANY: u32 = 5_000;

/// The decision on a request.
#[derive(Clone, Copy)]
enum Said {
    /// Most of the budget is left.
    Admitted,
    /// A fifth of the budget is left, so the client is near each limit.
    Near,
    Refused,
}

pub(crate) fn table() -> Table {
    let row = |name: &str, clients, decision| Row {
        name: name.into(),
        figures: [1, 3]
            .map(|limits| Figure::of(move || count(clients, decision, limits)))
            .into(),
    };
    Table {
        title: "counting a request",
        columns: vec!["one limit".into(), "three limits".into()],
        rows: vec![
            row("admitted, of 100 clients", FEW, Said::Admitted),
            row("near the limits, of 100 clients", FEW, Said::Near),
            row("refused, of 100 clients", FEW, Said::Refused),
            row("admitted, of 5,000 clients", MANY, Said::Admitted),
            row("near the limits, of 5,000 clients", MANY, Said::Near),
            row("refused, of 5,000 clients", MANY, Said::Refused),
        ],
        is_of_routes: false,
    }
}

/// Returns an operation that counts one request for the metrics. The requests come from all clients in turn.
fn count(clients: u32, decision: Said, limits: usize) -> Operation {
    let decided = decided(clients, decision, limits);
    let metrics = GatewayMetrics::new(WaitQueues::default());
    let rules = &decided[0].rules;
    let route = RouteMetrics::new(&metrics, &Arc::from("route"), Door::Proxy, rules.iter());
    let (outcome, status) = match decision {
        Said::Admitted | Said::Near => (RequestOutcome::Forwarded, StatusCode::OK),
        Said::Refused => (RequestOutcome::Limited, StatusCode::TOO_MANY_REQUESTS),
    };
    let mut next = 0;
    Box::new(move || {
        route.decided(black_box(&decided[next]));
        route.ended(outcome, Some(status), Duration::from_millis(3));
        next = (next + 1) % decided.len();
    })
}

/// Returns the limit layer's decision on the last request of each client.
fn decided(clients: u32, decision: Said, limits: usize) -> Vec<Decided> {
    let (capacity, requests) = match decision {
        Said::Admitted => (1_000, 1),
        Said::Near => (5, 4),
        Said::Refused => (1, 2),
    };
    let rate = Rate {
        count: capacity,
        per: 3_600_000_000,
    };
    let rule = |at| {
        let quota = TokenBucket::new(capacity, rate).expect("these numbers fit");
        let limit = Limit::new(format!("limit-{at}"), quota, OnFailure::Local);
        Rule::new(limit, [Per::Client])
    };
    let layer = RateLimitLayer::new(
        Policy {
            route: "route".into(),
            rules: (0..limits).map(rule).collect(),
            always: 0,
            access: None,
            answers: Answers::default(),
        },
        Arc::new(clients::clients()),
        Hasher::new(""),
        Store::Memory(Arc::new(MemoryStore::default())),
        WaitQueues::default(),
    );
    let answer = |_: Request<()>| async { Ok::<_, Infallible>(Response::new(Bytes::new())) };
    let mut service = layer.layer(service_fn(answer));
    let mut context = Context::from_waker(Waker::noop());
    let mut ask = |client: u32| {
        let address = IpAddr::V4(Ipv4Addr::from(0xcb00_0000 + client));
        let mut request = Request::new(());
        let peer = Peer::connected(SocketAddr::new(address, 80));
        request.extensions_mut().insert(RequestContext::new(peer));
        match service.call(request).as_mut().poll(&mut context) {
            Poll::Ready(Ok(response)) => response.extensions().get::<Answered>()?.decided.clone(),
            Poll::Ready(Err(never)) => match never {},
            Poll::Pending => unreachable!("the memory store waits for nobody"),
        }
    };
    let last = |client| {
        let answers = (0..requests).map(|_| ask(client));
        answers.last().flatten()
    };
    let decided = (0..clients).map(last);
    decided
        .map(|decided| *decided.expect("the layer leaves its decision in the answer"))
        .collect()
}
