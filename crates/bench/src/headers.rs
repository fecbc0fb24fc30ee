//! The cost of the headers that describe limits: a request through the limit layer with these headers, minus a request without them.

use std::convert::Infallible;
use std::hint::black_box;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Request, Response};
use tidegate_core::{Rate, TokenBucket};
use tidegate_store::{Limit, MemoryStore, OnFailure, Store};
use tidegate_tower::{
    Answers, Hasher, Peer, Per, Policy, RateLimitHeaders, RateLimitLayer, RequestContext, Reset,
    Rule, WaitQueues,
};
use tower::{Layer as _, Service as _, service_fn};

use crate::clients;
use crate::table::{Figure, Operation, Row, Table};

const NONE: RateLimitHeaders = RateLimitHeaders {
    x_ratelimit: None,
    ietf: false,
};
const X_RATELIMIT: RateLimitHeaders = RateLimitHeaders {
    x_ratelimit: Some(Reset::Epoch),
    ietf: false,
};
const IETF: RateLimitHeaders = RateLimitHeaders {
    x_ratelimit: None,
    ietf: true,
};

pub(crate) fn table() -> Table {
    let row = |name: &str, headers| Row {
        name: name.into(),
        figures: [1, 3]
            .map(|limits| {
                Figure::without(
                    move || request(limits, headers),
                    move || request(limits, NONE),
                )
            })
            .into(),
    };
    Table {
        title: "writing the headers of an admitted request",
        columns: vec!["one limit".into(), "three limits".into()],
        rows: vec![
            row("`X-RateLimit-*`", X_RATELIMIT),
            row("`RateLimit`, `RateLimit-Policy`", IETF),
        ],
        is_of_routes: false,
    }
}

/// Returns an operation that sends a request through the limit layer, and drops the answer.
fn request(limits: usize, headers: RateLimitHeaders) -> Operation {
    // The count is so large that time changes no digit of the headers, except the last digit of the reset.
    let count = 1_000_000;
    let rate = Rate {
        count,
        per: 3_600_000_000,
    };
    let rule = |at| {
        let quota = TokenBucket::new(count, rate).expect("these numbers fit");
        let limit = Limit::new(format!("limit-{at}"), quota, OnFailure::Local);
        Rule::new(limit, [Per::Client])
    };
    let policy = Policy {
        route: "route".into(),
        rules: (0..limits).map(rule).collect(),
        always: 0,
        access: None,
        answers: Answers {
            headers,
            ..Answers::default()
        },
    };
    let layer = RateLimitLayer::new(
        policy,
        Arc::new(clients::clients()),
        Hasher::new(""),
        Store::Memory(Arc::new(MemoryStore::default())),
        WaitQueues::default(),
    );
    let answer = |_: Request<()>| async {
        let mut response = Response::new(Bytes::new());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        Ok::<_, Infallible>(response)
    };
    let mut service = layer.layer(service_fn(answer));
    let mut context = Context::from_waker(Waker::noop());
    Box::new(move || {
        let mut request = Request::new(());
        let peer = Peer::connected(clients::PEER);
        request.extensions_mut().insert(RequestContext::new(peer));
        let mut answered = service.call(request);
        match answered.as_mut().poll(&mut context) {
            Poll::Ready(response) => drop(black_box(response)),
            Poll::Pending => unreachable!("the memory store waits for nobody"),
        }
    })
}
