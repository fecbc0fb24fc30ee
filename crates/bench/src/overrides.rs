//! The cost of overrides for a request, with few and with many overrides.

use std::convert::Infallible;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use tidegate_core::{FixedWindow, MAX_WINDOW};
use tidegate_identity::ListedClient;
use tidegate_store::{Limit, MemoryStore, OnFailure, Store};
use tidegate_tower::{
    Answers, Hasher, OverrideAction, Overrides, Peer, Per, Policy, RateLimitLayer, RequestContext,
    Rule, WaitQueues,
};
use tower::{Layer as _, Service as _, service_fn};

use crate::clients::{PROXY, clients};
use crate::table::{Figure, Operation, Row, Table};

/// The client of all requests.
const USER: &str = "user-42";
/// The address of the client.
const ADDRESS: &str = "203.0.113.7";

/// The number of overrides for other clients, for each column of the table.
const OTHERS: [u32; 3] = [0, 1_000, 100_000];

pub(crate) fn table() -> Table {
    let row = |name: &str, own: Option<(ListedClient, OverrideAction)>| Row {
        name: name.into(),
        figures: OTHERS
            .map(|others| {
                let own = own.clone();
                Figure::of(move || ask(others, own.clone()))
            })
            .into(),
    };
    let user = || ListedClient::UserId(USER.into());
    let network = || ListedClient::Network("203.0.113.0/24".parse().expect("a network"));
    Table {
        title: "a request that meets overrides",
        columns: vec![
            "no others".into(),
            "1,000 others".into(),
            "100,000 others".into(),
        ],
        rows: vec![
            row("none holds for the client", None),
            row("exempt by name", Some((user(), OverrideAction::Exempt))),
            row(
                "exempt by network",
                Some((network(), OverrideAction::Exempt)),
            ),
            row("blocked by name", Some((user(), OverrideAction::Block))),
        ],
        is_of_routes: false,
    }
}

/// Returns overrides for other clients: half of them for users, half for networks with the prefix lengths 24 and 32.
fn others(count: u32) -> impl Iterator<Item = (ListedClient, OverrideAction)> {
    (0..count).map(|at| {
        let address = Ipv4Addr::from(0x0a00_0000 + (at << 8));
        let client = match at % 4 {
            0 => ListedClient::Network(format!("{address}/24").parse().expect("a network")),
            1 => ListedClient::Network(format!("{address}/32").parse().expect("a network")),
            _ => ListedClient::UserId(format!("other-{at}").into()),
        };
        (client, OverrideAction::Exempt)
    })
}

/// Returns an operation that sends a request through the limit layer, with a limit in the memory store.
fn ask(count: u32, own: Option<(ListedClient, OverrideAction)>) -> Operation {
    let quota = FixedWindow::new(1_000_000, MAX_WINDOW).expect("these numbers fit");
    let limit = Limit::new("limit", quota, OnFailure::Local);
    let overrides = Overrides::default();
    overrides.table.replace(others(count).chain(own));
    let layer = RateLimitLayer::with_overrides(
        Policy {
            route: "route".into(),
            rules: [Rule::new(limit, [Per::Client])].into(),
            always: 0,
            access: None,
            answers: Answers::default(),
        },
        Arc::new(clients()),
        Hasher::new(""),
        Store::Memory(Arc::new(MemoryStore::default())),
        WaitQueues::default(),
        overrides,
        false,
    );
    let answer = |_: Request<()>| async { Ok::<_, Infallible>(Response::new(Bytes::new())) };
    let mut service = layer.layer(service_fn(answer));
    Box::new(move || {
        let mut request = Request::new(());
        let peer = Peer::connected(PROXY);
        request.extensions_mut().insert(RequestContext::new(peer));
        for (name, value) in [("x-user-id", USER), ("x-forwarded-for", ADDRESS)] {
            let name = HeaderName::from_static(name);
            request
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        let mut context = Context::from_waker(Waker::noop());
        let answer = service.call(request).as_mut().poll(&mut context);
        if let Poll::Ready(Ok(response)) = answer {
            black_box(response);
        }
    })
}
