use std::net::SocketAddr;

use http::{HeaderMap, HeaderName, HeaderValue, Request};
use tidegate_core::FixedWindow;
use tidegate_store::{Limit, OnFailure};

use super::*;
use crate::{Hasher, Peer};
use tidegate_identity::{
    Caller, ClientSource, Clients, TrustedProxies, UnknownClient,
    api_keys::{ApiKeys, ListedKey, UnknownKey, hash},
};

const KEY: HeaderName = HeaderName::from_static("x-api-key");
const USER: HeaderName = HeaderName::from_static("x-user-id");

fn clients(sources: Vec<ClientSource>) -> Clients {
    Clients {
        sources,
        trusted: TrustedProxies::new(vec!["127.0.0.1/32".parse().unwrap()]),
        ..Clients::default()
    }
}

/// Makes clients that are named by listed keys, by users and by addresses.
fn all() -> Clients {
    let acme = ListedKey {
        name: "acme".into(),
        sha256: hash(b"acme-key"),
        expires: None,
        plan: None,
    };
    clients(vec![
        ClientSource::ApiKey {
            header: KEY,
            keys: ApiKeys::new([acme]),
            unknown: UnknownKey::FallThrough,
        },
        ClientSource::UserId { header: USER },
        ClientSource::Ip,
    ])
}

fn rule(per: &[Per]) -> Rule {
    let quota = FixedWindow::new(10, 1_000_000).unwrap();
    Rule::new(Limit::new("limit", quota, OnFailure::Local), per)
}

/// Returns the caller of a request with these headers, which a trusted proxy forwards.
fn caller(headers: &[(HeaderName, &'static str)], address: &str) -> Caller {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(name, HeaderValue::from_static(value));
    }
    map.insert("x-forwarded-for", address.parse().unwrap());
    let peer = SocketAddr::from(([127, 0, 0, 1], 9));
    all().identify(Peer::connected(peer), &map)
}

fn every_per() -> Vec<Per> {
    let plain = Per::PLAIN.into_iter().map(|(_, per)| per);
    let others = [
        Per::Network(48),
        Per::Header(KEY),
        Per::Cookie("session".into()),
        Per::Path("id".into()),
        Per::Query("id".into()),
    ];
    plain.chain(others).collect()
}

#[test]
fn a_name_counts_where_requests_of_the_client_do() {
    let clients = all();
    let addresses = ["203.0.113.7", "2001:db8::1"];
    for (name, headers, expected) in [
        ("api_key:acme", vec![(KEY, "acme-key")], 3),
        ("user_id:42", vec![(USER, "42")], 3),
        ("ip:203.0.113.7", vec![], 7),
        ("203.0.113.7", vec![], 7),
        ("2001:db8::ffff:1", vec![], 7),
        ("ip:2001:db8::ffff:1", vec![], 7),
        ("ip:::ffff:203.0.113.7", vec![], 7),
    ] {
        let named = Caller::named(&clients, name).unwrap();
        let from = addresses[usize::from(name.contains("db8"))];
        let real = caller(&headers, from);
        assert_eq!(named.client, real.client, "{name}");
        let mut own = 0;
        for per in every_per() {
            let rule = rule(std::slice::from_ref(&per));
            if rule.budget_of(&named.client) == BudgetOwner::OfRequest {
                continue;
            }
            own += 1;
            let policy = Policy {
                route: "route".into(),
                rules: [rule].into(),
                ..Policy::default()
            };
            let hasher = Hasher::new("secret");
            let keys = |caller| hasher.keys(&policy, caller, &Request::new(()));
            assert_eq!(keys(&named), keys(&real), "{name}: {per}");
        }
        assert_eq!(own, expected, "{name}");
    }
}

#[test]
fn what_only_a_request_says_is_not_guessed() {
    let clients = all();
    let budget = |name, per: &[Per]| {
        let named = Caller::named(&clients, name).unwrap();
        rule(per).budget_of(&named.client)
    };
    for name in ["api_key:acme", "user_id:42", "ip:192.0.2.1"] {
        assert_eq!(budget(name, &[Per::Client]), BudgetOwner::Own);
        assert_eq!(budget(name, &[Per::Client, Per::Route]), BudgetOwner::Own);
        for shared in [&[][..], &[Per::Route]] {
            assert_eq!(budget(name, shared), BudgetOwner::Shared);
        }
        for part in [
            Per::Method,
            Per::Host,
            Per::Header(USER),
            Per::Path("a".into()),
        ] {
            assert_eq!(
                budget(name, &[Per::Client, part.clone()]),
                BudgetOwner::OfRequest
            );
            assert_eq!(budget(name, &[part]), BudgetOwner::OfRequest);
        }
    }
    for per in [Per::Ip, Per::Network(48), Per::UserId] {
        assert_eq!(budget("api_key:acme", &[per]), BudgetOwner::OfRequest);
    }
    for per in [Per::Ip, Per::Network(48), Per::ApiKey] {
        assert_eq!(budget("user_id:42", &[per]), BudgetOwner::OfRequest);
    }
}

#[test]
fn a_name_of_nobody_says_why() {
    let unknown = |name| Caller::named(&all(), name).unwrap_err();
    for name in [
        "",
        "acme",
        "api_key",
        "api_key:",
        "ip:",
        "key:acme",
        "IP:192.0.2.1",
    ] {
        assert_eq!(unknown(name), UnknownClient::Form, "{name}");
    }
    for name in [
        "ip:1.2.3",
        "ip:192.0.2.0/24",
        "ip:[::1]",
        "ip: 192.0.2.1",
        "ip:localhost",
    ] {
        assert_eq!(unknown(name), UnknownClient::Address, "{name}");
    }
    for name in [
        "api_key:Acme",
        "api_key:acme-key",
        "api_key:unlisted-00000000",
    ] {
        assert_eq!(unknown(name), UnknownClient::ApiKey, "{name}");
    }
    let addresses_only = clients(vec![ClientSource::Ip]);
    let user = Caller::named(&addresses_only, "user_id:42");
    assert_eq!(user.unwrap_err(), UnknownClient::UserId);
    let nobody = clients(Vec::new());
    assert!(
        Caller::named(&nobody, "ip:192.0.2.1").is_ok(),
        "who is named by nothing is an address"
    );
}
