//! Requests through the limit layer, with limits in the memory store.

use std::convert::Infallible;
use std::hint::black_box;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use tidegate_store::{MemoryStore, Store};
use tidegate_tower::{
    Answers, BudgetEvents, Hasher, Overrides, Peer, Policy, RateLimitLayer, RequestContext, Rule,
    WaitQueues,
};
use tower::{Layer as _, Service as _, service_fn};

use crate::clients::{PROXY, clients};
use crate::table::Operation;

/// The client of most requests.
pub(crate) const USER: &str = "user-42";
/// The address of every client.
const ADDRESS: &str = "203.0.113.7";

/// Returns an operation that sends a request under these rules. The requests come from these users in turn.
pub(crate) fn send(rules: Vec<Rule>, overrides: Overrides, users: Vec<HeaderValue>) -> Operation {
    let layer = RateLimitLayer::with_overrides(
        Policy {
            route: "route".into(),
            rules: rules.into(),
            always: 0,
            access: None,
            answers: Answers::default(),
        },
        Arc::new(clients()),
        Hasher::new(""),
        Store::Memory(Arc::new(MemoryStore::default())),
        WaitQueues::default(),
        (overrides, BudgetEvents::default()),
        false,
    );
    let answer = |_: Request<()>| async { Ok::<_, Infallible>(Response::new(Bytes::new())) };
    let mut service = layer.layer(service_fn(answer));
    let mut users = users.into_iter().cycle();
    Box::new(move || {
        let mut request = Request::new(());
        let peer = Peer::connected(PROXY);
        request.extensions_mut().insert(RequestContext::new(peer));
        let user = users.next().expect("there is a user");
        let headers = request.headers_mut();
        headers.insert(HeaderName::from_static("x-user-id"), user);
        let address = HeaderValue::from_static(ADDRESS);
        headers.insert(HeaderName::from_static("x-forwarded-for"), address);
        let mut context = Context::from_waker(Waker::noop());
        let answer = service.call(request).as_mut().poll(&mut context);
        if let Poll::Ready(Ok(response)) = answer {
            black_box(response);
        }
    })
}
