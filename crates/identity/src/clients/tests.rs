use std::time::{Duration, SystemTime};

use http::header::AUTHORIZATION;

use super::*;
use crate::ClientPlans;
use crate::api_keys::{self, ListedKey};

/// Callers with invented headers and credentials.
mod made_up;

const KEY: HeaderName = HeaderName::from_static("x-api-key");
const PARTNER_KEY: HeaderName = HeaderName::from_static("x-partner-key");
const USER: HeaderName = HeaderName::from_static("x-user-id");
const PROXY: &str = "10.0.0.1";
const STRANGER: &str = "192.0.2.1";

/// Returns the listed key `<name>'s key`.
fn listed(name: &str, expires: Option<Duration>) -> ListedKey {
    ListedKey {
        name: name.into(),
        sha256: api_keys::hash(format!("{name}'s key").as_bytes()),
        expires,
        plan: None,
    }
}

fn keys(names: &[&'static str]) -> ApiKeys {
    ApiKeys::new(names.iter().map(|name| listed(name, None)))
}

/// Returns the sources in this order: keys, users, addresses. 10.0.0.0/8 is trusted.
fn clients() -> Clients {
    let key = ClientSource::ApiKey {
        header: KEY,
        keys: keys(&["acme", "umbrella"]),
        unknown: UnknownKey::FallThrough,
    };
    let user = ClientSource::UserId { header: USER };
    Clients {
        sources: vec![key, user, ClientSource::Ip],
        trusted: TrustedProxies::new(vec!["10.0.0.0/8".parse().unwrap()]),
        ..Clients::default()
    }
}

/// Like [`clients`], but with this treatment of unlisted keys.
fn unless_listed(fate: UnknownKey) -> Clients {
    let mut clients = clients();
    let ClientSource::ApiKey { unknown, .. } = &mut clients.sources[0] else {
        panic!("keys come first")
    };
    *unknown = fate;
    clients
}

fn caller(clients: &Clients, peer: &str, headers: &[(HeaderName, &str)]) -> Caller {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(name, value.parse().unwrap());
    }
    clients.identify(
        Peer::connected((peer.parse::<IpAddr>().unwrap(), 4711).into()),
        &map,
    )
}

fn client(peer: &str, headers: &[(HeaderName, &str)]) -> String {
    caller(&clients(), peer, headers).client.to_string()
}

#[test]
fn the_first_source_that_answers_names_the_client() {
    let (key, user) = ((KEY, "acme's key"), (USER, "42"));
    assert_eq!(client(PROXY, &[key.clone(), user.clone()]), "api_key:acme");
    assert_eq!(client(PROXY, std::slice::from_ref(&user)), "user_id:42");
    assert_eq!(client(PROXY, &[]), "ip:10.0.0.1");
    let mut users_first = clients();
    users_first.sources.swap(0, 1);
    let caller = caller(&users_first, PROXY, &[key, user]);
    assert_eq!(caller.client.to_string(), "user_id:42");
    assert_eq!(caller.api_key, Some(Client::ApiKey("acme".into())));
}

#[test]
fn a_key_that_is_not_listed_names_nobody() {
    for key in ["acme", "Acme's key", "acme's key2", ""] {
        assert_eq!(client(STRANGER, &[(KEY, key)]), "ip:192.0.2.1", "{key:?}");
    }
    assert_eq!(client(STRANGER, &[(KEY, " acme's key\t")]), "api_key:acme");
}

#[test]
fn a_key_in_authorization_may_stand_behind_bearer() {
    let mut clients = unless_listed(UnknownKey::Reject);
    let ClientSource::ApiKey { header, .. } = &mut clients.sources[0] else {
        panic!("keys come first")
    };
    *header = AUTHORIZATION;
    let of = |value| caller(&clients, STRANGER, &[(AUTHORIZATION, value)]);
    for value in ["Bearer acme's key", "bearer  acme's key", "acme's key"] {
        assert_eq!(of(value).client.to_string(), "api_key:acme", "{value}");
        let mut headers = HeaderMap::new();
        headers.append(AUTHORIZATION, value.parse().unwrap());
        let peer = Peer::connected((STRANGER.parse::<IpAddr>().unwrap(), 4711).into());
        assert_eq!(clients.findings(peer, &headers, None), []);
    }
    for value in [
        "Bearer",
        "Bearer umbrella",
        "Basic acme's key",
        "Beareracme's key",
    ] {
        assert_eq!(of(value).refused, Some(Credentials::ApiKey), "{value}");
    }
    // In a header other than `Authorization`, the whole value is the key.
    assert_eq!(
        client(STRANGER, &[(KEY, "Bearer acme's key")]),
        "ip:192.0.2.1"
    );
}

#[test]
fn two_values_name_nobody() {
    let two_keys = [(KEY, "acme's key"), (KEY, "umbrella's key")];
    assert_eq!(client(STRANGER, &two_keys), "ip:192.0.2.1");
    let twice = [(KEY, "acme's key"), (KEY, "acme's key")];
    assert_eq!(client(STRANGER, &twice), "ip:192.0.2.1");
    assert_eq!(client(PROXY, &[(USER, "42"), (USER, "43")]), "ip:10.0.0.1");
}

/// Servers differ in which of two values they read, so the whole request is refused.
#[test]
fn two_values_are_refused_where_they_would_name_somebody() {
    let refused = |peer, headers: &[(HeaderName, &str)]| {
        let caller = caller(&clients(), peer, headers);
        assert!(!caller.unknown_key, "nobody guessed");
        caller.refused
    };
    let ambiguous = Some(Credentials::Ambiguous);
    let twice = [(KEY, "acme's key"), (KEY, "acme's key")];
    assert_eq!(refused(STRANGER, &twice), ambiguous);
    assert_eq!(refused(STRANGER, &[(KEY, ""), twice[0].clone()]), ambiguous);
    let users = [(USER, "42"), (USER, "42")];
    assert_eq!(refused(PROXY, &users), ambiguous);
    assert_eq!(refused(STRANGER, &users), None, "removed, as one is");
    let other = [twice[0].clone(), (USER, "42"), (USER, "43")];
    assert_eq!(
        client(PROXY, &other),
        "ip:10.0.0.1",
        "not by the key either"
    );
}

/// If a PROXY header has no address, any client may have sent the bytes after the header. So the peer is not trusted.
#[test]
fn a_proxy_that_names_no_client_vouches_for_nothing() {
    let clients = Clients {
        address_from: AddressFrom::Connection,
        ..clients()
    };
    let address = |ip: &str| (ip.parse::<IpAddr>().unwrap(), 4711).into();
    let user = HeaderMap::from_iter([(USER, "42".parse().unwrap())]);
    for (peer, trusted) in [
        (Peer::connected(address(PROXY)), false),
        (Peer::connected(address(STRANGER)), false),
        (Peer::named(address(STRANGER)), false),
        (Peer::named(address(PROXY)), true),
    ] {
        assert_eq!(clients.trusts(peer), trusted, "{peer:?}");
        let user_id = clients.identify(peer, &user).user_id;
        assert_eq!(user_id.is_some(), trusted, "{peer:?}");
    }
}

#[test]
fn a_user_is_believed_from_a_trusted_proxy_only() {
    let user = [(USER, "42")];
    assert_eq!(client(PROXY, &user), "user_id:42");
    assert_eq!(client("::ffff:10.0.0.1", &user), "user_id:42");
    let stranger = caller(&clients(), STRANGER, &user);
    assert_eq!(stranger.client.to_string(), "ip:192.0.2.1");
    assert_eq!(stranger.user_id, None, "nor may a limit be counted per it");
    let clients = clients();
    assert_eq!(clients.vouched_headers().collect::<Vec<_>>(), [&USER]);
}

#[test]
fn a_user_that_is_not_text_is_nobody() {
    let mut headers = HeaderMap::new();
    for bytes in [&b"\xff\xfe"[..], b"  ", b""] {
        headers.insert(USER, http::HeaderValue::from_bytes(bytes).unwrap());
        let peer = Peer::connected((PROXY.parse::<IpAddr>().unwrap(), 4711).into());
        let caller = clients().identify(peer, &headers);
        assert_eq!(caller.client.to_string(), "ip:10.0.0.1", "{bytes:?}");
    }
}

#[test]
fn a_key_is_kept_when_another_source_of_keys_finds_none() {
    let mut clients = clients();
    let partners = ClientSource::ApiKey {
        header: PARTNER_KEY,
        keys: keys(&["globex"]),
        unknown: UnknownKey::FallThrough,
    };
    clients.sources.insert(1, partners);
    let acme = Some(Client::ApiKey("acme".into()));
    let one = [(KEY, "acme's key")];
    assert_eq!(caller(&clients, STRANGER, &one).api_key, acme);
    let both = [(KEY, "acme's key"), (PARTNER_KEY, "globex's key")];
    let caller = caller(&clients, STRANGER, &both);
    assert_eq!(caller.api_key, acme, "the first source wins here, too");
    assert_eq!(Some(caller.client), acme);
}

#[test]
fn an_ipv6_client_is_a_network() {
    let ip = |bits, peer: &str| {
        let clients = Clients {
            ipv6_prefix: bits,
            ..clients()
        };
        caller(&clients, peer, &[]).client.to_string()
    };
    assert_eq!(ip(64, "2001:db8:1:2:3:4:5:6"), "ip:2001:db8:1:2::");
    assert_eq!(ip(64, "2001:db8:1:2:ffff::1"), "ip:2001:db8:1:2::");
    assert_eq!(ip(64, "2001:db8:1:3::1"), "ip:2001:db8:1:3::");
    assert_eq!(ip(48, "2001:db8:1:3::1"), "ip:2001:db8:1::");
    assert_eq!(ip(56, "2001:db8:1:12ff::1"), "ip:2001:db8:1:1200::");
    assert_eq!(ip(128, "2001:db8::1"), "ip:2001:db8::1");
    assert_eq!(ip(1, "ffff::1"), "ip:8000::");
}

#[test]
fn ipv4_is_one_client_per_address_however_it_is_written() {
    assert_eq!(client("192.0.2.1", &[]), "ip:192.0.2.1");
    assert_eq!(client("::ffff:192.0.2.1", &[]), "ip:192.0.2.1");
    assert_eq!(client("::ffff:192.0.2.2", &[]), "ip:192.0.2.2");
    let forwarded = HeaderName::from_static("x-forwarded-for");
    let hop = |address: &str| client(PROXY, &[(forwarded.clone(), address)]);
    assert_eq!(hop("::ffff:192.0.2.1"), "ip:192.0.2.1");
    assert_eq!(hop("2001:db8:1:2:3:4:5:6"), "ip:2001:db8:1:2::");
}

#[test]
fn sources_are_asked_in_their_order_and_the_one_that_answered_is_told() {
    let everything = [(KEY, "acme's key"), (USER, "42")];
    let by = |clients: &Clients, headers: &[_]| {
        let caller = caller(clients, PROXY, headers);
        (caller.client.to_string(), caller.named_by)
    };
    let mut clients = clients();
    assert_eq!(by(&clients, &everything), ("api_key:acme".into(), Some(0)));
    assert_eq!(
        by(&clients, &everything[1..]),
        ("user_id:42".into(), Some(1))
    );
    assert_eq!(by(&clients, &[]), ("ip:10.0.0.1".into(), Some(2)));
    clients.sources.rotate_right(1);
    assert_eq!(by(&clients, &everything), ("ip:10.0.0.1".into(), Some(0)));
    clients.sources.remove(0);
    assert_eq!(
        by(&clients, &[]),
        ("ip:10.0.0.1".into(), None),
        "nobody answered"
    );
    clients.sources.clear();
    assert_eq!(by(&clients, &everything), ("ip:10.0.0.1".into(), None));
}

#[test]
fn a_limit_may_count_what_did_not_name_the_client() {
    let mut clients = clients();
    clients.sources.rotate_right(1);
    let caller = caller(&clients, PROXY, &[(KEY, "acme's key"), (USER, "42")]);
    assert_eq!(caller.client.to_string(), "ip:10.0.0.1");
    assert_eq!(caller.api_key, Some(Client::ApiKey("acme".into())));
    assert_eq!(caller.user_id, Some(Client::UserId("42".into())));
}

#[test]
fn a_key_that_has_expired_is_unknown() {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    let minute = Duration::from_secs(60);
    for (expires, name) in [
        (None, "api_key:acme"),
        (Some(now + minute), "api_key:acme"),
        (Some(now - minute), "ip:192.0.2.1"),
        (Some(Duration::ZERO), "ip:192.0.2.1"),
    ] {
        let clients = clients();
        let ClientSource::ApiKey { keys, .. } = &clients.sources[0] else {
            panic!("keys come first")
        };
        keys.replace([listed("acme", expires)]);
        let caller = caller(&clients, STRANGER, &[(KEY, "acme's key")]);
        assert_eq!(caller.client.to_string(), name, "{expires:?}");
        assert_eq!(caller.unknown_key, name.starts_with("ip"), "{expires:?}");
    }
}

#[test]
fn replaced_keys_are_seen_by_all_clones() {
    let clients = clients();
    let clone = clients.clone();
    let ClientSource::ApiKey { keys, .. } = &clients.sources[0] else {
        panic!("keys come first")
    };
    keys.replace([listed("globex", None), listed("umbrella", None)]);
    for clients in [&clients, &clone] {
        let by = |key| caller(clients, STRANGER, &[(KEY, key)]).client.to_string();
        assert_eq!(by("acme's key"), "ip:192.0.2.1", "no longer listed");
        assert_eq!(by("umbrella's key"), "api_key:umbrella");
        assert_eq!(by("globex's key"), "api_key:globex");
    }
    keys.replace([]);
    assert_eq!(
        caller(&clone, STRANGER, &[(KEY, "globex's key")]).api_key,
        None
    );
}

#[test]
fn the_header_that_names_the_client_is_vouched_for_like_a_users() {
    let header = HeaderName::from_static("x-client");
    let clients = Clients {
        forward_client: Some(header.clone()),
        ..clients()
    };
    assert_eq!(
        clients.vouched_headers().collect::<Vec<_>>(),
        [&USER, &header]
    );
    let read: Vec<_> = clients.read_headers().collect();
    assert_eq!(read, [&KEY, &USER, &header]);
}

/// A client has the plan of the source that names the client. Plans of other sources do not count.
#[test]
fn a_plan_comes_with_the_name() {
    let plans = ClientPlans::new(["silver", "gold"]);
    let gold = ListedKey {
        plan: plans.called("gold"),
        ..listed("acme", None)
    };
    let of = |header, keys: Vec<ListedKey>| ClientSource::ApiKey {
        header,
        keys: ApiKeys::new(keys),
        unknown: UnknownKey::FallThrough,
    };
    let clients = Clients {
        sources: vec![
            of(KEY, vec![gold, listed("umbrella", None)]),
            of(
                PARTNER_KEY,
                vec![ListedKey {
                    plan: plans.called("silver"),
                    ..listed("partner", None)
                }],
            ),
            ClientSource::Ip,
        ],
        ..clients()
    };
    let plan = |headers: &[(HeaderName, &str)]| {
        let plan = caller(&clients, STRANGER, headers).plan;
        plan.map(|plan| (plan.index(), plan.to_string()))
    };
    let silver = || Some((0, "silver".to_owned()));
    assert_eq!(plan(&[(KEY, "acme's key")]), Some((1, "gold".to_owned())));
    assert_eq!(plan(&[(KEY, "umbrella's key")]), None);
    assert_eq!(plan(&[]), None);
    assert_eq!(plan(&[(PARTNER_KEY, "partner's key")]), silver());
    let both = |key| [(PARTNER_KEY, "partner's key"), (KEY, key)];
    assert_eq!(plan(&both("umbrella's key")), None, "the first one names");
    assert_eq!(plan(&both("made up")), silver());
    let named = Caller::named(&clients, "api_key:acme").unwrap();
    assert_eq!(named.plan, plans.called("gold"));
}
