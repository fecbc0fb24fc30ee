//! The cost of identifying the client of a request, and of hashing the key under which limits count the client.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use http::{HeaderMap, HeaderName, HeaderValue, Request};
use tidegate_core::FixedWindow;
use tidegate_identity::{AddressFrom, ClientSource, Clients, TrustedProxies};
use tidegate_identity::{api_keys, api_keys::ApiKeys, api_keys::ListedKey, api_keys::UnknownKey};
use tidegate_store::{Limit, OnFailure};
use tidegate_tower::{Answers, Hasher, Peer, Per, Policy, Rule};

use crate::table::{Figure, Operation, Row, Table};

/// A peer that [`clients`] does not trust.
pub(crate) const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7)), 80);
/// A proxy that [`clients`] trusts.
pub(crate) const PROXY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1)), 80);

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const USER_ID: HeaderName = HeaderName::from_static("x-user-id");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

pub(crate) fn table() -> Table {
    let row = |name: &str, peer, header: Option<(HeaderName, &'static str)>| Row {
        name: name.into(),
        figures: vec![
            Figure::of({
                let header = header.clone();
                move || identify(peer, header.clone())
            }),
            Figure::of(move || identify_and_hash(peer, header.clone())),
        ],
    };
    Table {
        title: "naming a client",
        columns: vec!["named".into(), "and hashed".into()],
        rows: vec![
            row("by its address", PEER, None),
            row(
                "by its address, as a proxy tells it",
                PROXY,
                Some((X_FORWARDED_FOR, "198.51.100.7, 203.0.113.7")),
            ),
            row("by a user ID of a proxy", PROXY, Some((USER_ID, "user-42"))),
            row(
                "by one of 1,000 API keys",
                PEER,
                Some((API_KEY, "the-key-0042")),
            ),
        ],
        is_of_routes: false,
    }
}

/// Returns settings that identify a client by API key, user ID or address.
pub(crate) fn clients() -> Clients {
    let key = |at| ListedKey {
        name: format!("client-{at:04}").into(),
        sha256: api_keys::hash(format!("the-key-{at:04}").as_bytes()),
        expires: None,
        plan: None,
    };
    let proxies = ["127.0.0.1/32", "10.0.0.0/8"].map(|net| net.parse().expect("a network"));
    Clients {
        sources: vec![
            ClientSource::ApiKey {
                header: API_KEY,
                keys: ApiKeys::new((0..1_000).map(key)),
                unknown: UnknownKey::FallThrough,
            },
            ClientSource::UserId { header: USER_ID },
            ClientSource::Ip,
        ],
        trusted: TrustedProxies::new(proxies.into()),
        address_from: AddressFrom::XForwardedFor,
        ipv6_prefix: 64,
        forward_client: None,
        members: Default::default(),
    }
}

fn headers(header: Option<(HeaderName, &'static str)>) -> HeaderMap {
    let header = header.map(|(name, value)| (name, HeaderValue::from_static(value)));
    header.into_iter().collect()
}

fn identify(peer: SocketAddr, header: Option<(HeaderName, &'static str)>) -> Operation {
    let (clients, headers) = (clients(), headers(header));
    Box::new(move || {
        drop(black_box(
            clients.identify(Peer::connected(peer), black_box(&headers)),
        ))
    })
}

fn identify_and_hash(peer: SocketAddr, header: Option<(HeaderName, &'static str)>) -> Operation {
    let clients = clients();
    let quota = FixedWindow::new(100, 1_000_000).expect("these numbers fit");
    let limit = Limit::new("limit", quota, OnFailure::Local);
    let policy = Policy {
        route: "route".into(),
        rules: [Rule::new(limit, [Per::Client])].into(),
        always: 0,
        access: None,
        answers: Answers::default(),
    };
    let hasher = Hasher::new("a secret of some length");
    let mut request = Request::new(());
    *request.headers_mut() = headers(header);
    Box::new(move || {
        let caller = clients.identify(Peer::connected(peer), black_box(request.headers()));
        black_box(hasher.keys(&policy, &caller, &request));
    })
}
