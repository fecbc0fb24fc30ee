use std::collections::HashSet;
use std::net::IpAddr;

use tidegate_core::FixedWindow;
use tidegate_store::{Limit, OnFailure};

use super::*;
use tidegate_identity::Claims;

/// Values that callers choose.
mod values;

fn rule(name: &str, per: &[Per]) -> Rule {
    let quota = FixedWindow::new(10, 1_000_000).unwrap();
    Rule::new(Limit::new(name, quota, OnFailure::Local), per)
}

fn ip(address: &str) -> Client {
    Client::Ip(address.parse::<IpAddr>().unwrap())
}

fn user(id: &str) -> Client {
    Client::UserId(id.into())
}

/// A caller at 192.0.2.1, named as this client.
fn caller(client: Client) -> Caller {
    Caller {
        api_key: Some(client.clone()).filter(|client| matches!(client, Client::ApiKey(_))),
        user_id: Some(client.clone()).filter(|client| matches!(client, Client::UserId(_))),
        client_cert: Some(client.clone()).filter(|it| matches!(it, Client::Certificate(_))),
        client,
        claims: Claims::default(),
        ip: ip("192.0.2.1"),
        named_by: None,
        plan: None,
        unknown_plan: None,
        unknown_key: false,
        refused: None,
        origin: Some([192, 0, 2, 1].into()),
        has_token: false,
    }
}

fn get(host: &str) -> Request<()> {
    Request::get("/").header(HOST, host).body(()).unwrap()
}

/// Returns the key of this request under one limit, which is counted per `per` on `route`.
fn key(per: &[Per], route: &str, client: Client, request: &Request<()>) -> Key {
    let policy = Policy {
        route: route.into(),
        rules: [rule("limit", per)].into(),
        ..Policy::default()
    };
    Hasher::new("secret").keys(&policy, &caller(client), request)[0]
}

fn of_client(client: Client) -> Key {
    key(&[Per::Client], "route", client, &get("host"))
}

#[test]
fn a_name_is_another_client_in_another_kind() {
    let same = [
        of_client(ip("1.2.3.4")),
        of_client(user("1.2.3.4")),
        of_client(Client::ApiKey("1.2.3.4".into())),
        // The bytes of this address equal the name `ABCD`.
        of_client(ip("65.66.67.68")),
        of_client(user("ABCD")),
        of_client(Client::ApiKey("ABCD".into())),
        // The IPv6 address begins with the bytes of the IPv4 address.
        of_client(ip("4142:4344::")),
    ];
    for (i, one) in same.iter().enumerate() {
        for other in &same[i + 1..] {
            assert_ne!(one.tag, other.tag);
        }
    }
    assert_eq!(of_client(user("42")), of_client(user("42")));
}

#[test]
fn parts_do_not_run_into_each_other() {
    let on =
        |route: &str, host: &str| key(&[Per::Route, Per::Host], route, user("42"), &get(host)).rest;
    assert_ne!(on("a", "bc"), on("ab", "c"));
    // Without the lengths of the parts, both lists would hash the same bytes: "route" "x" "host" "yhost", and "route" "xhosty" "host" "".
    assert_ne!(on("x", "yhost"), on("xhosty", ""));
    assert_eq!(on("a", "bc"), on("a", "bc"));
}

#[test]
fn all_limits_of_a_client_share_its_tag_and_differ_in_the_rest() {
    let per: [&[Per]; 5] = [
        &[Per::Client],
        &[Per::Client, Per::Route],
        &[Per::Route, Per::Client],
        &[Per::Client, Per::Method],
        &[Per::UserId, Per::Host],
    ];
    let keys = per.map(|per| key(per, "route", user("42"), &get("host")));
    for key in &keys {
        assert_eq!(key.tag, of_client(user("42")).tag);
    }
    assert_eq!(keys[0].rest, [0; 16], "there is nothing else");
    assert_eq!(keys[1].rest, keys[2].rest);
    for (i, j) in [(0, 1), (1, 3), (1, 4), (3, 4)] {
        assert_ne!(keys[i].rest, keys[j].rest);
    }
}

#[test]
fn a_request_of_several_limits_is_counted_as_by_each_alone() {
    let per: [&[Per]; 5] = [
        &[Per::Client],
        &[Per::Ip],
        &[Per::Client, Per::Route],
        &[Per::Ip, Per::Route],
        &[],
    ];
    let policy = Policy {
        route: "route".into(),
        rules: per.map(|per| rule("limit", per)).into(),
        ..Policy::default()
    };
    let together = Hasher::new("secret").keys(&policy, &caller(user("42")), &get("host"));
    let alone = per.map(|per| key(per, "route", user("42"), &get("host")));
    assert_eq!(together.as_slice(), alone);
    assert_ne!(
        together[0].tag, together[1].tag,
        "another client, another tag"
    );
}

#[test]
fn who_is_missing_counts_under_the_address() {
    let at = |per, client| key(&[per], "route", client, &get("host"));
    let address = of_client(ip("192.0.2.1"));
    assert_eq!(at(Per::ApiKey, user("42")), address);
    assert_eq!(at(Per::UserId, Client::ApiKey("acme".into())), address);
    assert_eq!(at(Per::Ip, user("42")), address);
    assert_eq!(at(Per::UserId, user("42")), of_client(user("42")));
}

#[test]
fn a_limit_for_all_is_one_and_no_other_limits() {
    let shared = |name: &str, client| {
        let policy = Policy {
            route: "route".into(),
            rules: [rule(name, &[])].into(),
            ..Policy::default()
        };
        Hasher::new("secret").keys(&policy, &caller(client), &get("host"))[0]
    };
    assert_eq!(shared("one", user("42")), shared("one", ip("192.0.2.9")));
    assert_ne!(shared("one", user("42")).tag, shared("two", user("42")).tag);
}

#[test]
fn a_share_is_in_the_slot_of_its_limit_and_differs_by_member_and_by_budget() {
    let rate = tidegate_core::Rate {
        count: 10,
        per: 1_000_000,
    };
    let quota = tidegate_core::TokenBucket::new(10, rate).unwrap();
    let limit = Limit::new("pool", quota, OnFailure::Local);
    let rules = |is_by_host| {
        let per = [Per::Host].into_iter().filter(|_| is_by_host);
        let shared = Rule::new(limit.clone(), per.collect::<Vec<_>>());
        let share = shared.share_of_members([Per::Client], &[]).unwrap();
        [shared, share]
    };
    let keys = |is_by_host, client, host| {
        let [shared, share] = rules(is_by_host);
        let policy = Policy {
            route: "route".into(),
            rules: [shared, share.clone()].into(),
            ..Policy::default()
        };
        let hasher = Hasher::new("secret");
        let (caller, request) = (caller(client), get(host));
        let keys = hasher.keys(&policy, &caller, &request);
        // The same key without the key of the limit in front.
        assert_eq!(hasher.key(&share, &policy, &caller, &request), keys[1]);
        [keys[0], keys[1]]
    };
    for is_by_host in [true, false] {
        let [whole, member] = keys(is_by_host, user("42"), "one");
        assert_eq!(whole.tag, member.tag);
        assert_ne!(whole, member);
        assert_eq!(keys(is_by_host, user("43"), "one")[0], whole);
        assert_ne!(keys(is_by_host, user("43"), "one")[1], member);
        let elsewhere = keys(is_by_host, user("42"), "two");
        assert_eq!(elsewhere == [whole, member], !is_by_host);
    }
}

#[test]
fn head_is_get_and_nothing_else_is() {
    let by = |method| {
        let mut request = get("host");
        *request.method_mut() = method;
        key(&[Per::Method], "route", user("42"), &request)
    };
    assert_eq!(by(Method::HEAD), by(Method::GET));
    assert_ne!(by(Method::POST), by(Method::GET));
    assert_ne!(by("get".parse().unwrap()), by(Method::GET));
}

#[test]
fn a_host_is_one_however_it_is_written() {
    let on = |request: &Request<()>| key(&[Per::Host], "route", user("42"), request);
    let plain = on(&get("example.com"));
    for same in [
        "EXAMPLE.com",
        "example.com:8080",
        "example.com.",
        "Example.com.:80",
    ] {
        assert_eq!(on(&get(same)), plain, "{same}");
    }
    let absolute = Request::get("http://Example.com:80/").body(()).unwrap();
    assert_eq!(on(&absolute), plain);
    assert_ne!(on(&get("example.org")), plain);
    assert_eq!(on(&get("[::1]:80")), on(&get("[::1]")));
    assert_ne!(on(&get("[::1]")), on(&get("[::2]")));
    for same in ["[0:0::1]:80", "[0000::0001]", "[::0.0.0.1]"] {
        assert_eq!(on(&get(same)), on(&get("[::1]")), "{same}");
    }
}

#[test]
fn another_secret_makes_other_hashes() {
    let policy = Policy {
        route: "route".into(),
        rules: [rule("limit", &[Per::Client, Per::Route])].into(),
        ..Policy::default()
    };
    let with = |secret| Hasher::new(secret).keys(&policy, &caller(user("42")), &get("host"))[0];
    assert_ne!(with("one").tag, with("two").tag);
    assert_ne!(with("one").rest, with("two").rest);
    assert_eq!(with("one"), with("one"));
}

#[test]
fn another_secret_is_used_by_all_clones_and_told_apart_without_being_told() {
    let policy = Policy {
        route: "route".into(),
        rules: [rule("limit", &[Per::Client])].into(),
        ..Policy::default()
    };
    let of = |hasher: &Hasher| hasher.keys(&policy, &caller(user("42")), &get("host"))[0];
    let (hasher, other) = (Hasher::new("one"), Hasher::new("two"));
    let clone = hasher.clone();
    assert_ne!(hasher.fingerprint(), other.fingerprint());
    hasher.replace("two");
    assert_eq!(of(&clone), of(&other));
    assert_eq!(clone.fingerprint(), other.fingerprint());
    assert_eq!(clone.fingerprint().len(), 16);
}
