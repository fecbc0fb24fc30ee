use http::header::COOKIE;
use http::{HeaderName, HeaderValue};

use super::*;

const TENANT: HeaderName = HeaderName::from_static("x-tenant");

/// Returns the key under which a limit counts `request` of a caller at `address`.
fn at(address: &str, per: &[Per], request: &Request<()>) -> Key {
    let policy = Policy {
        route: "route".into(),
        rules: [rule("limit", per)].into(),
        ..Policy::default()
    };
    let caller = Caller {
        ip: ip(address),
        ..caller(ip(address))
    };
    Hasher::new("secret").keys(&policy, &caller, request)[0]
}

/// One kind of value that a client can choose: a header, a cookie, a part of the path or a part of the query.
struct Window {
    per: Per,
    /// Makes a request with this value, or without a value.
    request: fn(Option<&[u8]>) -> Request<()>,
}

fn windows() -> [Window; 4] {
    [
        Window {
            per: Per::Header(TENANT),
            request: |value| with_header(TENANT, value),
        },
        Window {
            per: Per::Cookie("x-tenant".into()),
            request: |value| {
                with_header(COOKIE, value.map(|v| [b"x-tenant=", v].concat()).as_deref())
            },
        },
        Window {
            per: Per::Path("x-tenant".into()),
            request: |value| {
                let mut request = get("host");
                let value = value.map(|value| String::from_utf8_lossy(value).into());
                let values = value.map(|value: String| ("x-tenant".into(), value.into()));
                RequestContext::of_mut(&mut request).path_values = values.into_iter().collect();
                request
            },
        },
        Window {
            per: Per::Query("x-tenant".into()),
            request: with_query,
        },
    ]
}

fn with_query(value: Option<&[u8]>) -> Request<()> {
    let mut request = get("host");
    if let Some(value) = value {
        let escaped: String = value.iter().map(|byte| format!("%{byte:02X}")).collect();
        *request.uri_mut() = format!("/?x-tenant={escaped}").parse().unwrap();
    }
    request
}

fn with_header(name: HeaderName, value: Option<&[u8]>) -> Request<()> {
    let mut request = get("host");
    if let Some(value) = value {
        let value = HeaderValue::from_bytes(value).unwrap();
        request.headers_mut().insert(name, value);
    }
    request
}

fn distinct(keys: &[Key]) -> usize {
    keys.iter()
        .map(|key| (key.tag, key.rest))
        .collect::<HashSet<_>>()
        .len()
}

#[test]
fn each_value_is_counted_alone_wherever_it_comes_from() {
    for Window { per, request } in windows() {
        let of =
            |address, value: &[u8]| at(address, std::slice::from_ref(&per), &request(Some(value)));
        assert_ne!(of("192.0.2.1", b"x"), of("192.0.2.1", b"y"), "{per}");
        assert_ne!(of("192.0.2.1", b"x"), of("192.0.2.1", b"X"), "{per}");
        assert_eq!(of("192.0.2.1", b"x"), of("192.0.2.2", b"x"), "{per}");
    }
}

#[test]
fn a_value_that_is_missing_is_the_callers_address() {
    for Window { per, request } in windows() {
        let without = |address| at(address, std::slice::from_ref(&per), &request(None));
        let one = without("192.0.2.1");
        assert_eq!(one, without("192.0.2.1"), "{per}");
        assert_ne!(one, without("192.0.2.2"), "{per}");
        // A value that equals an address does not count as that address.
        let says = at(
            "192.0.2.2",
            std::slice::from_ref(&per),
            &request(Some(b"192.0.2.1")),
        );
        assert_ne!(says, one, "{per}");
        let octets = at(
            "192.0.2.2",
            std::slice::from_ref(&per),
            &request(Some(b"ABCD")),
        );
        assert_ne!(octets, without("65.66.67.68"), "{per}");
    }
}

#[test]
fn an_empty_value_is_missing() {
    let [header, cookie, ..] = windows();
    for Window { per, request } in [header, cookie] {
        let of = |value| at("192.0.2.1", std::slice::from_ref(&per), &request(value));
        assert_eq!(of(Some(b"")), of(None), "{per}");
        assert_eq!(of(Some(b" \t")), of(None), "{per}");
        assert_eq!(of(Some(b" x ")), of(Some(b"x")), "{per}");
    }
}

#[test]
fn a_value_of_one_kind_is_none_of_another() {
    let x: Vec<_> = windows()
        .iter()
        .map(|window| {
            at(
                "192.0.2.1",
                std::slice::from_ref(&window.per),
                &(window.request)(Some(b"x")),
            )
        })
        .collect();
    assert_eq!(distinct(&x), 4);
    let all = windows().map(|window| window.per);
    let one_of_all = windows().map(|window| at("192.0.2.1", &all, &(window.request)(Some(b"x"))));
    assert_eq!(distinct(&one_of_all), 4);
    let named = |name: &'static str| {
        let name = HeaderName::from_static(name);
        at(
            "192.0.2.1",
            &[Per::Header(name.clone())],
            &with_header(name, Some(b"x")),
        )
    };
    assert_ne!(named("x-a"), named("x-b"));
}

#[test]
fn a_header_that_comes_twice_is_missing() {
    let per = [Per::Header(TENANT)];
    let mut twice = with_header(TENANT, Some(b"x"));
    twice.headers_mut().append(TENANT, "y".parse().unwrap());
    assert_eq!(
        at("192.0.2.1", &per, &twice),
        at("192.0.2.1", &per, &get("host"))
    );
    assert_ne!(at("192.0.2.1", &per, &twice), at("192.0.2.2", &per, &twice));
}

#[test]
fn a_parameter_counts_under_its_one_value_however_it_is_spelled() {
    let per = [Per::Query("index".into())];
    let of = |query: &str| {
        let mut request = get("host");
        *request.uri_mut() = format!("/search?{query}").parse().unwrap();
        at("192.0.2.1", &per, &request)
    };
    let plain = of("index=a%20b");
    for same in ["index=a+b", "q=x&index=a%20b&r", "%69ndex=%61%20%62"] {
        assert_eq!(of(same), plain, "{same}");
    }
    let missing = at("192.0.2.1", &per, &get("host"));
    for none in [
        "",
        "index=",
        "index",
        "Index=a",
        "index=a&index=b",
        "index=a&index=a",
        // Some servers ignore case, split at `;`, or trim names.
        "index=b&Index=a",
        "index=b;index=a",
        "index=b&%20index=a",
        "index=a;x=1",
        "q=x;index=a&index=b",
    ] {
        assert_eq!(of(none), missing, "{none}");
    }
    assert_ne!(of("index=A%20B"), plain);
}

#[test]
fn a_cookie_counts_under_its_one_value_however_it_is_spelled() {
    let per = [Per::Cookie("session".into())];
    let of = |line: &[u8]| at("192.0.2.1", &per, &with_header(COOKIE, Some(line)));
    let plain = of(b"session=x");
    for same in [
        "a=1; session=x; b=2",
        "a=1;session=x",
        "session = x",
        "session=x; session=x",
        "flag; session=x",
        // Python's `http.cookies` decodes quoted values. PHP and Express decode escapes.
        "session=\"x\"",
        "session=\"\\170\"",
        "session=\"\\x\"",
        "session=%78",
        "session=\"%78\"",
        "session=%78; session=x",
    ] {
        assert_eq!(of(same.as_bytes()), plain, "{same}");
    }
    let none = at("192.0.2.1", &per, &get("host"));
    for other in [
        "Session=x",
        "xsession=x",
        "a=session=x",
        "session",
        "session=",
        "session=\"\"",
        // Servers differ in three ways: which of two values they take, where a value ends, and whether case matters.
        "session=y; session=x",
        "session=x; session=y",
        "session=x; session=",
        "session=x; Session=y",
        "session=y; a=1 session=x",
        "session=y; a=1, session=x",
        "session=y; a=\"1\"session=x",
        "session=y; a=\"; session = x\"",
        // Some servers end a value at these characters.
        "session=x 1",
        "session=x\t1",
        "session=x,1",
        "session=x\"1",
        "session=\"x,1\"",
    ] {
        assert_eq!(of(other.as_bytes()), none, "{other}");
    }
    let folded = [Per::Cookie("my_session".into())];
    let of_folded = |line: &[u8]| at("192.0.2.1", &folded, &with_header(COOKIE, Some(line)));
    for other in ["my_session=y; my.session=x", "my_session=y; my session=x"] {
        assert_eq!(
            of_folded(other.as_bytes()),
            at("192.0.2.1", &folded, &get("host")),
            "{other}"
        );
    }
    // A search that takes time quadratic in the number of blanks would not end.
    let blanks = format!("a;{}; session=x", " ".repeat(2_000_000));
    assert_eq!(of(blanks.as_bytes()), plain);
    let mut two_lines = with_header(COOKIE, Some(b"a=1"));
    two_lines
        .headers_mut()
        .append(COOKIE, "session=x".parse().unwrap());
    assert_eq!(at("192.0.2.1", &per, &two_lines), plain);
    two_lines
        .headers_mut()
        .append(COOKIE, "session=y".parse().unwrap());
    assert_eq!(at("192.0.2.1", &per, &two_lines), none);
}

#[test]
fn values_do_not_run_into_each_other() {
    let of = |one: &str, other: &str| {
        let mut request = get("host");
        let values = [("a", one), ("b", other)].map(|(name, value)| (name.into(), value.into()));
        RequestContext::of_mut(&mut request).path_values = values.into();
        at(
            "192.0.2.1",
            &[Per::Path("a".into()), Per::Path("b".into())],
            &request,
        )
    };
    let alike = [
        of("x", "yz"),
        of("xy", "z"),
        of("xyz", ""),
        of("", "xyz"),
        of("x:y", "z"),
        of("x", "y:z"),
    ];
    assert_eq!(distinct(&alike), alike.len());
    // The first value ends with the bytes that begin the next part. Without the lengths of the parts, both lists would hash the same bytes.
    let between = "\0\0\0\0\0\0\0\u{4}path\0\0\0\0\0\0\0\u{1}b";
    let one = of("x", &format!("y{between}z"));
    assert_ne!(one, of(&format!("x{between}y"), "z"));
}

#[test]
fn bytes_that_mean_something_to_a_store_mean_nothing_here() {
    let ids = [
        "a", "a:b", "a:", ":a", "*", "a*", "a\n", "a\nb", "a\r\nb", "a\0", "a\0b", "\0", "{a}",
        "a}", "{", "{}", "a b", " a", "\u{e9}", "e\u{301}",
    ];
    let clients: Vec<_> = ids.map(user).map(of_client).into();
    assert_eq!(distinct(&clients), ids.len());
    let tags: HashSet<_> = clients.iter().map(|key| key.tag).collect();
    assert_eq!(tags.len(), ids.len());
    let path = |id: &str| {
        let mut request = get("host");
        let values = vec![("id".into(), id.into())];
        RequestContext::of_mut(&mut request).path_values = values;
        at("192.0.2.1", &[Per::Path("id".into())], &request)
    };
    assert_eq!(distinct(&ids.map(path)), ids.len());
}

#[test]
fn ids_with_a_hash_tag_of_their_own_spread_like_any_others() {
    let tags: HashSet<[u8; 16]> = (0..1000)
        .map(|i| of_client(user(&format!("{{a}}{i}"))).tag)
        .collect();
    assert!(tags.len() >= 900, "{}", tags.len());
    // A hash slot is computed from the tag, so two bytes of the tags must be spread as well.
    let slots: HashSet<u16> = tags
        .iter()
        .map(|tag| u16::from_be_bytes([tag[0], tag[1]]) % 16384)
        .collect();
    assert!(slots.len() >= 900, "{}", slots.len());
}

#[test]
fn kinds_of_clients_never_meet() {
    let same = [
        of_client(user("x")),
        of_client(Client::ApiKey("x".into())),
        of_client(Client::Certificate("x".into())),
        of_client(Client::Certificate("192.0.2.1".into())),
        of_client(Client::UserId("unlisted-00000000".into())),
        of_client(Client::ApiKey("unlisted-00000000".into())),
        of_client(Client::UnlistedKey([0; 16])),
        of_client(Client::ApiKey("\0".repeat(16).into())),
        of_client(user("ip:192.0.2.1")),
        of_client(user("192.0.2.1")),
        of_client(ip("192.0.2.1")),
        of_client(ip("::ffff:192.0.2.1")),
    ];
    assert_eq!(distinct(&same), same.len());
    let limit = key(&[], "route", user("limit"), &get("host"));
    assert_ne!(limit.tag, of_client(user("limit")).tag);
}

#[test]
fn a_wider_network_is_one_for_all_its_addresses() {
    let of = |address: &str, bits| at(address, &[Per::Network(bits)], &get("host"));
    assert_eq!(of("2001:db8:1:2::", 48), of("2001:db8:1:3::", 48));
    assert_ne!(of("2001:db8:1:2::", 48), of("2001:db8:2:2::", 48));
    assert_ne!(of("2001:db8:1:2::", 56), of("2001:db8:1:302::", 56));
    assert_ne!(
        of("192.0.2.1", 48),
        of("192.0.2.2", 48),
        "IPv4 counts in full"
    );
    assert_eq!(of("192.0.2.1", 48), of("192.0.2.1", 32));
    let both = |address: &str| at(address, &[Per::Route, Per::Network(48)], &get("host"));
    assert_eq!(both("2001:db8:1:2::"), both("2001:db8:1:3::"));
    assert_ne!(both("2001:db8:1:2::"), both("2001:db8:2:2::"));
    assert_eq!(
        of("64:ff9b::", 48),
        of("64:ff9b:0:1::", 48),
        "the first 64 bits of an address are no NAT64's"
    );
}

#[test]
fn a_network_is_the_address_of_whoever_the_client_is() {
    let of = |client| key(&[Per::Network(48)], "route", client, &get("host"));
    assert_eq!(of(user("42")), of(user("43")));
    assert_eq!(of(user("42")), of_client(ip("192.0.2.1")));
}

#[test]
fn a_second_part_of_a_caller_is_that_part_and_no_other() {
    let of = |per: &[Per], address: &str, user_id: Option<&str>| {
        let policy = Policy {
            route: "route".into(),
            rules: [rule("limit", per)].into(),
            ..Policy::default()
        };
        let caller = Caller {
            api_key: Some(Client::ApiKey("acme".into())),
            user_id: user_id.map(user),
            ip: ip(address),
            ..caller(Client::ApiKey("acme".into()))
        };
        Hasher::new("secret").keys(&policy, &caller, &get("host"))[0]
    };
    let by_address = |address| of(&[Per::Client, Per::Ip], address, None);
    assert_eq!(by_address("192.0.2.1").tag, by_address("192.0.2.2").tag);
    assert_ne!(by_address("192.0.2.1").rest, by_address("192.0.2.2").rest);
    let by_user = |id| of(&[Per::ApiKey, Per::UserId], "192.0.2.1", id);
    assert_ne!(by_user(Some("42")), by_user(Some("43")));
    assert_eq!(
        by_user(None),
        by_address("192.0.2.1"),
        "a missing user is the address"
    );
}

/// Returns the key under which a limit per claim counts a caller whose token has these claims.
fn by_claim(claims: &serde_json::Value, address: &str, per: &[Per]) -> Key {
    let policy = Policy {
        route: "route".into(),
        rules: [rule("limit", per)].into(),
        ..Policy::default()
    };
    let names: [std::sync::Arc<str>; 2] = ["tenant".into(), "team".into()];
    let caller = Caller {
        claims: Claims::of(&names, claims.as_object().unwrap()),
        ip: ip(address),
        ..caller(user("42"))
    };
    Hasher::new("secret").keys(&policy, &caller, &get("host"))[0]
}

#[test]
fn a_claim_is_counted_by_its_value_and_by_the_address_without_one() {
    use serde_json::json;
    let tenant = [Per::Claim("tenant".into())];
    let of = |claims, address| by_claim(&claims, address, &tenant);
    let acme = of(json!({ "tenant": "acme" }), "192.0.2.1");
    assert_eq!(acme, of(json!({ "tenant": "acme" }), "192.0.2.2"));
    assert_eq!(acme, of(json!({ "tenant": ["acme"] }), "192.0.2.2"));
    let others = [
        acme,
        of(json!({ "tenant": "umbrella" }), "192.0.2.1"),
        of(json!({ "tenant": ["acme", "umbrella"] }), "192.0.2.1"),
        of(json!({ "tenant": "acme, umbrella" }), "192.0.2.1"),
        of(json!({ "tenant": "192.0.2.1" }), "192.0.2.1"),
        of(json!({ "team": "acme" }), "192.0.2.1"),
        of(json!({ "team": "acme" }), "192.0.2.2"),
        by_claim(
            &json!({ "team": "acme" }),
            "192.0.2.1",
            &[Per::Claim("team".into())],
        ),
    ];
    assert_eq!(distinct(&others), others.len());
    let without = of(json!({}), "192.0.2.1");
    assert_eq!(without, at("192.0.2.1", &[Per::Ip], &get("host")));
}

#[test]
fn a_claim_beside_the_client_splits_its_budget() {
    use serde_json::json;
    let both = [Per::Client, Per::Claim("tenant".into())];
    let of = |claims| by_claim(&claims, "192.0.2.1", &both);
    let (acme, umbrella) = (json!({ "tenant": "acme" }), json!({ "tenant": "umbrella" }));
    assert_eq!(of(acme.clone()).tag, of(umbrella.clone()).tag);
    assert_ne!(of(acme).rest, of(umbrella).rest);
}
