use std::collections::HashSet;

use http::HeaderValue;

use super::*;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

#[test]
fn a_stranger_is_one_client_whatever_they_make_up() {
    let seen: HashSet<String> = (0..1000)
        .map(|i| {
            let (address, user) = (format!("198.51.100.{}", i % 256), format!("user-{i}"));
            let key = format!("key-{i}");
            let made_up = [
                (FORWARDED_FOR, &*address),
                (HeaderName::from_static("forwarded"), "for=198.51.100.1"),
                (HeaderName::from_static("x-real-ip"), &*address),
                (HeaderName::from_static("cf-connecting-ip"), &*address),
                (USER, &*user),
                (KEY, &*key),
            ];
            let caller = caller(&clients(), STRANGER, &made_up);
            assert_eq!((&caller.api_key, &caller.user_id), (&None, &None));
            assert_eq!(caller.client, caller.ip);
            caller.client.to_string()
        })
        .collect();
    assert_eq!(seen, ["ip:192.0.2.1".to_owned()].into());
}

#[test]
fn a_client_behind_a_proxy_is_the_hop_that_the_proxy_added() {
    let through = |line: &str| client(PROXY, &[(FORWARDED_FOR, line)]);
    assert_eq!(through("6.6.6.6, 192.0.2.1"), "ip:192.0.2.1");
    assert_eq!(
        through("10.0.0.9, 192.0.2.1"),
        "ip:192.0.2.1",
        "a trusted one in front changes nothing"
    );
    assert_eq!(through("192.0.2.1, , 10.0.0.2"), "ip:10.0.0.2");
    let lines = [
        (FORWARDED_FOR, "6.6.6.6"),
        (FORWARDED_FOR, "2001:db8:1:2:3::4"),
    ];
    assert_eq!(client(PROXY, &lines), "ip:2001:db8:1:2::");
}

#[test]
fn where_a_request_came_from_is_read_as_configured() {
    let both = [
        (FORWARDED_FOR, "192.0.2.1"),
        (HeaderName::from_static("forwarded"), "for=192.0.2.2"),
    ];
    for (address_from, name) in [
        (AddressFrom::XForwardedFor, "ip:192.0.2.1"),
        (AddressFrom::Forwarded, "ip:192.0.2.2"),
        (AddressFrom::Connection, "ip:10.0.0.1"),
    ] {
        let clients = Clients {
            address_from,
            ..clients()
        };
        assert_eq!(caller(&clients, PROXY, &both).ip.to_string(), name);
    }
}

#[test]
fn a_translated_ipv4_address_is_that_address() {
    assert_eq!(client("64:ff9b::192.0.2.1", &[]), "ip:192.0.2.1");
    let hop = |address: &str| client(PROXY, &[(FORWARDED_FOR, address)]);
    assert_eq!(hop("64:ff9b::192.0.2.1"), "ip:192.0.2.1");
    assert_eq!(hop("[64:ff9b::192.0.2.1]:4711"), "ip:192.0.2.1");
    assert_eq!(hop("[::ffff:192.0.2.1]:4711"), "ip:192.0.2.1");
    let masked = "ip:fe80::";
    assert_eq!(hop("fe80::1%eth0"), masked);
    assert_eq!(hop("fe80::2%eth1"), masked);
}

#[test]
fn a_proxys_word_on_users_is_not_a_strangers_behind_it() {
    // The proxy is trusted, and the hop before the proxy is not. The user ID counts, because the trusted proxy sends it.
    let headers = [(FORWARDED_FOR, "192.0.2.1"), (USER, "42")];
    assert_eq!(client(PROXY, &headers), "user_id:42");
    // A peer that is not trusted cannot gain trust by a header with a trusted address.
    let claims = [(FORWARDED_FOR, "10.0.0.1"), (USER, "42")];
    assert_eq!(client(STRANGER, &claims), "ip:192.0.2.1");
    assert_eq!(
        client("fd00::1", &claims),
        "ip:fd00::",
        "10.0.0.0/8 holds no IPv6"
    );
}

#[test]
fn an_unknown_key_falls_through_to_the_next_source() {
    let unknown = (KEY, "made up");
    let at = |peer, headers: &[_]| caller(&unless_listed(UnknownKey::FallThrough), peer, headers);
    let stranger = at(STRANGER, std::slice::from_ref(&unknown));
    assert_eq!(stranger.client.to_string(), "ip:192.0.2.1");
    assert_eq!((stranger.unknown_key, stranger.refused), (true, None));
    assert_eq!(stranger.named_by, Some(2));
    let user = at(PROXY, &[unknown, (USER, "42")]);
    assert_eq!(user.client.to_string(), "user_id:42");
    assert!(user.unknown_key);
    assert!(!at(STRANGER, &[(KEY, "acme's key")]).unknown_key);
    assert!(!at(STRANGER, &[]).unknown_key);
}

#[test]
fn an_unknown_key_may_be_refused_and_then_names_only_an_address() {
    let at = |headers: &[_]| caller(&unless_listed(UnknownKey::Reject), PROXY, headers);
    for headers in [&[(KEY, "made up")][..], &[(KEY, "made up"), (USER, "42")]] {
        let caller = at(headers);
        assert_eq!(caller.refused, Some(Credentials::ApiKey), "{headers:?}");
        assert_eq!(caller.client.to_string(), "ip:10.0.0.1", "{headers:?}");
        assert_eq!((caller.named_by, caller.unknown_key), (None, true));
        assert_eq!(caller.api_key, None);
    }
    let caller = at(&[(KEY, "acme's key")]);
    assert_eq!(
        (caller.client.to_string(), caller.refused),
        ("api_key:acme".into(), None)
    );
    assert_eq!(at(&[]).refused, None, "no key is no wrong key");
}

#[test]
fn an_unknown_key_is_refused_though_another_source_answers_first() {
    let mut clients = unless_listed(UnknownKey::Reject);
    clients.sources.rotate_right(1);
    let caller = caller(&clients, STRANGER, &[(KEY, "made up")]);
    assert_eq!(caller.refused, Some(Credentials::ApiKey));
    assert_eq!(caller.client.to_string(), "ip:192.0.2.1");
    assert_eq!(caller.named_by, None);
}

#[test]
fn an_unknown_key_may_be_a_client_of_its_own() {
    let at = |key: &str| caller(&unless_listed(UnknownKey::Accept), STRANGER, &[(KEY, key)]);
    let (one, other) = (at("made up"), at("made up too"));
    assert!(matches!(one.client, Client::UnlistedKey(_)), "{one:?}");
    assert_ne!(one.client, other.client);
    assert_eq!(one.client, at(" made up ").client);
    assert_eq!(one.api_key.as_ref(), Some(&one.client));
    assert_eq!(
        (one.named_by, one.unknown_key, one.refused),
        (Some(0), true, None)
    );
    assert_eq!(at("acme's key").client, Client::ApiKey("acme".into()));
    assert_eq!(at("").client.to_string(), "ip:192.0.2.1");
    let clients = unless_listed(UnknownKey::Accept);
    let two = caller(&clients, STRANGER, &[(KEY, "made up"), (KEY, "made up")]);
    assert_eq!(two.client.to_string(), "ip:192.0.2.1");
    assert_eq!(two.api_key, None);
}

#[test]
fn an_unlisted_key_is_never_shown() {
    let key = "sk_live_0123456789abcdef";
    let caller = caller(&unless_listed(UnknownKey::Accept), STRANGER, &[(KEY, key)]);
    let shown = caller.client.to_string();
    let hash = api_keys::hash(key.as_bytes());
    let start: String = hash[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(shown, format!("api_key:unlisted-{start}"));
    assert!(!format!("{caller:?}").contains(key));
}

#[test]
fn an_empty_key_is_none() {
    for fate in [
        UnknownKey::FallThrough,
        UnknownKey::Reject,
        UnknownKey::Accept,
    ] {
        for empty in ["", " ", "\t "] {
            let caller = caller(&unless_listed(fate), STRANGER, &[(KEY, empty)]);
            assert_eq!(
                caller.client.to_string(),
                "ip:192.0.2.1",
                "{fate:?} {empty:?}"
            );
            assert_eq!(
                (caller.unknown_key, caller.refused),
                (false, None),
                "{fate:?} {empty:?}"
            );
        }
    }
    let one_of_two = [(KEY, "acme's key"), (KEY, "")];
    let caller = caller(&unless_listed(UnknownKey::Reject), STRANGER, &one_of_two);
    assert_eq!(caller.refused, Some(Credentials::Ambiguous), "two are two");
}

#[test]
fn values_of_64_kib_and_of_any_bytes_are_as_good_as_others() {
    let clients = unless_listed(UnknownKey::Accept);
    let by = |name: HeaderName, value: &[u8]| {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_bytes(value).unwrap());
        clients.identify(
            Peer::connected((PROXY.parse::<IpAddr>().unwrap(), 4711).into()),
            &headers,
        )
    };
    let huge = vec![b'x'; 64 * 1024];
    let mut differs = huge.clone();
    *differs.last_mut().unwrap() = b'y';
    assert_ne!(by(KEY, &huge).client, by(KEY, &differs).client);
    assert_eq!(by(KEY, &huge).client, by(KEY, &huge).client);
    assert!(by(KEY, &huge).client.to_string().len() < 64, "a short name");
    assert_ne!(by(KEY, b"\xff\xfe").client, by(KEY, b"\xff\xff").client);
    let Client::ApiKey(_) = by(KEY, b"acme's key").client else {
        panic!("still known")
    };
    let id = "x".repeat(64 * 1024);
    assert_eq!(by(USER, &huge).user_id, Some(Client::UserId(id.into())));
}

#[test]
fn the_name_of_a_key_is_no_key_and_no_other_kind_of_client() {
    let mut clients = clients();
    let ClientSource::ApiKey { keys, .. } = &clients.sources[0] else {
        panic!("keys come first")
    };
    keys.replace(["192.0.2.1", "42", "user_id:42"].map(|name| listed(name, None)));
    let by = |headers: &[_]| caller(&clients, PROXY, headers).client;
    assert_ne!(by(&[(KEY, "42's key")]), by(&[(USER, "42")]));
    assert_ne!(
        by(&[(KEY, "192.0.2.1's key")]),
        by(&[(FORWARDED_FOR, "192.0.2.1")])
    );
    assert_eq!(by(&[(KEY, "42")]), by(&[]), "names are no secrets");
    let names = [
        by(&[(KEY, "42's key")]),
        by(&[(KEY, "user_id:42's key")]),
        by(&[(USER, "42")]),
        by(&[(KEY, "192.0.2.1's key")]),
        by(&[(FORWARDED_FOR, "192.0.2.1")]),
    ];
    let distinct: HashSet<String> = names.iter().map(ToString::to_string).collect();
    assert_eq!(distinct.len(), names.len());
    clients.sources.remove(0);
    assert_eq!(caller(&clients, PROXY, &[(KEY, "42's key")]).api_key, None);
}
