use std::net::IpAddr;

use http::Request;

use super::*;
use crate::ListedClient;
use crate::networks::NetworkTable;
use crate::{Client, ClientSource, Clients, TrustedProxies};
use tidegate_net::peer::Peer;

/// Makes a list of networks and clients, each with its own line.
fn list(clients: &[&str]) -> ClientList {
    let listed = |text: &&str| match text.split_once(':') {
        Some(("api_key", name)) => ListedClient::ApiKey(name.into()),
        Some(("user_id", id)) => ListedClient::UserId(id.into()),
        _ => {
            let address = || text.parse::<IpAddr>().unwrap().into();
            ListedClient::Network(text.parse().unwrap_or_else(|_| address()))
        }
    };
    let places = (1..).map(|line| format!("file:{line}").into());
    ClientList::new(clients.iter().map(listed).zip(places))
}

fn of_limit(deny: &[&str], exempt: &[&str]) -> LimitLists {
    LimitLists {
        deny: list(deny),
        exempt: list(exempt),
    }
}

fn lists(deny: &[&str], exempt: &[&str]) -> AccessLists {
    AccessLists {
        deny: list(deny),
        exempt: list(exempt),
        ..AccessLists::default()
    }
}

/// Returns a caller at this address. If there is a user, a trusted proxy names the user.
fn caller(address: &str, user: Option<&str>) -> Caller {
    let user_id = http::HeaderName::from_static("x-user-id");
    let clients = Clients {
        sources: vec![
            ClientSource::UserId {
                header: user_id.clone(),
            },
            ClientSource::Ip,
        ],
        trusted: TrustedProxies::new(vec!["127.0.0.1/32".parse().unwrap()]),
        ..Clients::default()
    };
    let mut request = Request::new(());
    let headers = request.headers_mut();
    headers.insert("x-forwarded-for", address.parse().unwrap());
    if let Some(user) = user {
        headers.insert(user_id, user.parse().unwrap());
    }
    let peer = Peer::connected(([127, 0, 0, 1], 1).into());
    clients.identify(peer, request.headers())
}

/// Returns whether a caller is denied, and the indices of the limits that do not charge it.
fn judged(access: &Access, mut caller: Caller) -> (bool, Vec<usize>) {
    let denied = access.denies_address(caller.origin.unwrap()).is_some();
    let verdict = access.judge(&mut caller, || false);
    let denied = denied || verdict.as_ref().is_some_and(|it| it.denied_by().is_some());
    let exempt = (0..access.exempt.limits.len())
        .filter(|index| verdict.as_ref().is_some_and(|it| it.exempts(*index)));
    (denied, exempt.collect())
}

#[test]
fn lists_that_say_nothing_are_none() {
    let limit = LimitLists::default();
    let limits = [&limit, &limit];
    let nothing = AccessLists::default();
    assert!(Access::new(&nothing, None, &nothing, &limits, 1).is_none());
    // Without limits, `exempt` has no effect.
    let office = lists(&[], &["10.0.0.0/8"]);
    assert!(Access::new(&office, None, &nothing, &[], 0).is_none());
}

#[test]
fn who_is_exempt_from_what() {
    let limits = [
        of_limit(&[], &["192.0.2.1"]),
        of_limit(&[], &["user_id:42", "192.0.2.0/24"]),
        LimitLists::default(),
    ];
    let limits: Vec<_> = limits.iter().collect();
    let gateway = lists(&[], &["10.0.0.0/8", "2001:db8::7"]);
    let route = lists(&[], &["10.0.0.0/8", "user_id:43", "198.51.100.0/24"]);
    let access = Access::new(&gateway, None, &route, &limits, 1).unwrap();
    for (address, user, exempt) in [
        ("10.1.2.3", None, &[0, 1, 2][..]),
        // All bits of an address are compared, though its client is a /64.
        ("2001:db8::7", None, &[0, 1, 2]),
        ("2001:db8::8", None, &[]),
        ("192.0.2.1", None, &[0, 1]),
        ("192.0.2.2", Some("1"), &[1]),
        ("203.0.113.1", Some("42"), &[1]),
        // The first limit is charged on every route, so the route's `exempt` does not matter.
        ("203.0.113.1", Some("43"), &[1, 2]),
        ("198.51.100.9", None, &[1, 2]),
        ("203.0.113.1", None, &[]),
    ] {
        let judged = judged(&access, caller(address, user));
        assert_eq!(judged, (false, exempt.to_vec()), "{address} {user:?}");
    }
    let entry = access.exempts(&caller("10.1.2.3", None), 2).unwrap();
    assert_eq!((&*entry.text, &*entry.place), ("10.0.0.0/8", "file:1"));
}

#[test]
fn deny_wins_over_exempt_wherever_both_are() {
    let limits = [
        of_limit(&["user_id:1"], &["user_id:1"]),
        LimitLists::default(),
    ];
    let limits: Vec<_> = limits.iter().collect();
    let gateway = lists(&["192.0.2.0/24"], &["192.0.2.1", "user_id:2"]);
    let route = lists(&["user_id:2"], &["192.0.2.1"]);
    let mut networks = NetworkTable::default();
    networks.insert("198.51.100.0/24".parse().unwrap(), 17);
    let file = NetworkFile::new("bad.txt", networks);
    let access = Access::new(&gateway, Some(&file), &route, &limits, 0).unwrap();
    for (address, user) in [
        ("192.0.2.1", None),
        ("203.0.113.1", Some("1")),
        ("203.0.113.1", Some("2")),
        ("198.51.100.1", None),
    ] {
        let (denied, _) = judged(&access, caller(address, user));
        assert!(denied, "{address} {user:?}");
    }
    assert!(!judged(&access, caller("203.0.113.1", Some("3"))).0);
    let address: IpAddr = "198.51.100.1".parse().unwrap();
    let entry = access.denies_address(address).unwrap();
    assert_eq!(
        (&*entry.text, &*entry.place),
        ("198.51.100.0/24", "bad.txt:17")
    );
    file.replace(NetworkTable::default());
    assert!(access.denies_address(address).is_none());
}

#[test]
fn of_two_names_either_denies_and_only_the_client_exempts() {
    let limit = of_limit(&[], &["user_id:42"]);
    let access = |deny: &[&str]| {
        let nothing = AccessLists::default();
        Access::new(&lists(deny, &[]), None, &nothing, &[&limit], 0).unwrap()
    };
    let mut both = caller("203.0.113.1", Some("42"));
    let key = Client::ApiKey("acme".into());
    (both.client, both.api_key) = (key.clone(), Some(key));
    assert_eq!(
        judged(&access(&["192.0.2.1"]), both.clone()),
        (false, vec![])
    );
    assert!(judged(&access(&["user_id:42"]), both.clone()).0);
    assert!(judged(&access(&["api_key:acme"]), both).0);
}

#[test]
fn only_listed_clients_are_let_through() {
    let limit = LimitLists::default();
    let only = |clients: &[&str]| AccessLists {
        allow: Some(AllowList::new(list(clients), "file:9")),
        ..lists(&["192.0.2.66"], &["198.51.100.0/24"])
    };
    let nothing = AccessLists::default();
    let by_address = Access::new(&only(&["192.0.2.0/24"]), None, &nothing, &[&limit], 0).unwrap();
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let entry = by_address.denies_address(address("203.0.113.1")).unwrap();
    assert_eq!((&*entry.text, &*entry.place), ("allow", "file:9"));
    assert!(entry.is_allow_list());
    assert_eq!(by_address.denies_address(address("192.0.2.1")), None);
    assert!(!by_address.needs_names() && by_address.needs_address(0));

    // If a list has a name, the address alone does not decide. A client must be in the lists of the gateway and of the route.
    let both = Access::new(
        &only(&["192.0.2.0/24", "user_id:42", "user_id:43"]),
        None,
        &only(&["192.0.2.0/25", "user_id:42"]),
        &[&limit],
        0,
    );
    let both = both.unwrap();
    assert!(both.needs_names());
    for (from, user, denied) in [
        ("192.0.2.1", None, false),
        ("192.0.2.200", None, true),
        ("192.0.2.200", Some("42"), false),
        ("203.0.113.1", Some("42"), false),
        ("203.0.113.1", Some("43"), true),
        ("203.0.113.1", None, true),
        // The first address is also under `deny`, the second under `exempt`.
        ("192.0.2.66", Some("42"), true),
        ("198.51.100.1", None, true),
    ] {
        let judged = judged(&both, caller(from, user));
        assert_eq!(judged.0, denied, "{from} {user:?}");
    }
    let mut refused = caller("203.0.113.1", None);
    refused.refuse(Credentials::Missing(Required::Verified));
    assert!(!judged(&both, refused).0, "401 comes first");
    assert!(
        both.judge(&mut caller("203.0.113.1", None), || true)
            .is_none()
    );
}

#[test]
fn who_shows_nothing_that_is_required_is_an_address() {
    let required = |require| AccessLists {
        require: Some(require),
        ..lists(&[], &["user_id:42"])
    };
    let nothing = AccessLists::default();
    let limit = LimitLists::default();
    for (require, is_met) in [
        (Required::Verified, true),
        (Required::ApiKey, false),
        (Required::Token, false),
    ] {
        let access = Access::new(&nothing, None, &required(require), &[&limit], 0).unwrap();
        let mut user = caller("203.0.113.1", Some("42"));
        let exempt = access.judge(&mut user, || false);
        assert_eq!(exempt.is_some(), is_met, "{require}");
        let missing = (!is_met).then_some(Credentials::Missing(require));
        assert_eq!(user.refused, missing, "{require}");
        assert_eq!(user.client == user.ip, !is_met, "{require}");
        let mut page = caller("203.0.113.1", None);
        access.judge(&mut page, || true);
        assert_eq!(page.refused, None, "{require}");
    }
}
