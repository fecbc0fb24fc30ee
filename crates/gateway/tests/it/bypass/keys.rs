use std::collections::HashSet;

use tidegate_testkit::RedisServer;

use crate::callers::{
    JWT, TRUST, all_keys_are_ours_and_end, ask, at, bearer, left, limit_keys, listed,
};
use crate::kit::{Bench, exact, get, on_both_stores, raw_status, send};

/// What others have put between the parts of a key, or into a pattern.
const NASTY: [&str; 11] = [
    "a:b",
    "a",
    "b",
    "*",
    "?",
    "[a-z]*",
    "{a}",
    "}:{",
    "\u{e9}",
    "tidegate:secret",
    "ip:127.0.0.1",
];

/// What no user may be called.
const CONTROL: [&str; 4] = ["a\r\nFLUSHALL\r\n", "a\n", "a\0", "a\u{7f}"];

/// A gateway that takes users from tokens, whose claims hold any character.
async fn of_users(store: &str, limit: &str) -> Bench {
    Bench::start(&format!(
        "
{store}
{TRUST}
clients: [{{ jwt: {{ {JWT} }} }}, {{ user_id: {{}} }}]
limits:
  own: {{ {limit} }}
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [own] }}
"
    ))
    .await
}

async fn header_values(store: &str) {
    let bench = Bench::start(&format!(
        "
{store}
limits:
  once: {{ fixed_window: {{ limit: 1, window: 31d }}, per: [\"header:x-tenant\"] }}
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [once] }}
"
    ))
    .await;
    let raw = async |lines: &str| {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        raw_status(bench.gateway.address, &request).await
    };
    let huge = "h".repeat(8_000);
    for (lines, status) in [
        ("X-Tenant: acme\r\n", 200),
        ("x-tenant: acme\r\n", 429),
        ("X-TENANT:\t acme \t\r\n", 429),
        ("X-Tenant: Acme\r\n", 200),
        // Empty is absent, and so are two: then the address counts.
        ("", 200),
        ("X-Tenant:\r\n", 429),
        ("X-Tenant:   \r\n", 429),
        ("X-Tenant: new-1\r\nx-tenant: new-2\r\n", 429),
        ("X-Tenant: acme\r\nX-Tenant: acme\r\n", 429),
        // The address is not a tenant who is called like it.
        ("X-Tenant: 127.0.0.1\r\n", 200),
        (&format!("X-Tenant: {huge}\r\n"), 200),
        (&format!("X-Tenant: {huge}\r\n"), 429),
        (&format!("X-Tenant: {huge}!\r\n"), 200),
    ] {
        let shown: String = lines.chars().take(40).collect();
        assert_eq!(raw(lines).await, status, "{shown:?}");
    }
    bench.stop().await;
}

#[tokio::test]
async fn b9_a_header_counts_by_its_value_however_it_is_written() {
    on_both_stores(header_values).await;
}

async fn api_key_values(store: &str) {
    let bench = Bench::start(&format!(
        "
{store}
clients: [{{ api_key: {{ keys: [{}] }} }}]
forward_client: X-Client-Id
routes:
  - {{ path: /**, upstream: UPSTREAM }}
",
        listed("alpha")
    ))
    .await;
    let cases = [
        ("X-API-Key: alpha-key\r\n", "api_key:alpha"),
        ("x-api-key:\talpha-key \r\n", "api_key:alpha"),
        ("X-API-KEY: Alpha-Key\r\n", "ip:127.0.0.1"),
        ("X-API-Key:\r\n", "ip:127.0.0.1"),
        ("X-API-Key: alpha-key, alpha-key\r\n", "ip:127.0.0.1"),
        ("X_API_Key: alpha-key\r\n", "ip:127.0.0.1"),
    ];
    for (lines, client) in cases {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        assert_eq!(raw_status(bench.gateway.address, &request).await, 200);
        assert_eq!(crate::callers::last_client(&bench), client, "{lines:?}");
    }
    bench.stop().await;
}

#[tokio::test]
async fn b9_an_api_key_is_one_value_in_one_line() {
    on_both_stores(api_key_values).await;
}

async fn scopes(store: &str) {
    let bench = Bench::start(&format!(
        "
{store}
limits:
  split: {{ fixed_window: {{ limit: 3, window: 31d }}, per: [client, route] }}
  one: {{ fixed_window: {{ limit: 3, window: 31d }} }}
  two: {{ fixed_window: {{ limit: 3, window: 31d }} }}
  one-log: {{ sliding_window_log: {{ limit: 3, window: 31d }} }}
routes:
  - {{ path: /split/a, upstream: UPSTREAM, limits: [split] }}
  - {{ path: /split/b, upstream: UPSTREAM, limits: [split] }}
  - {{ path: /one/a, upstream: UPSTREAM, limits: [one] }}
  - {{ path: /one/b, upstream: UPSTREAM, limits: [one] }}
  - {{ path: /two, upstream: UPSTREAM, limits: [two] }}
  - {{ path: /log, upstream: UPSTREAM, limits: [one-log] }}
"
    ))
    .await;
    let client = &bench.client;
    for (path, remaining) in [
        ("/split/a", 2),
        ("/split/a", 1),
        ("/split/b", 2),
        // One limit is one budget, whichever route it is listed by.
        ("/one/a", 2),
        ("/one/b", 1),
        // Another limit with the same numbers is another budget.
        ("/two", 2),
        ("/log", 2),
    ] {
        assert_eq!(left(client, path, &[]).await, remaining, "{path}");
    }
    bench.stop().await;
}

#[tokio::test]
async fn b10_routes_split_a_limit_only_where_it_says_so_and_limits_share_nothing() {
    on_both_stores(scopes).await;
}

async fn parts(store: &str) {
    let bench = Bench::start(&format!(
        "
{store}
limits:
  once: {{ fixed_window: {{ limit: 1, window: 31d }}, per: [\"header:a\", \"header:b\", \"cookie:c\"] }}
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [once] }}
"
    ))
    .await;
    for (a, b, c, status) in [
        ("x", "y", "c=z", 200),
        ("x", "y", "c=z", 429),
        ("xy", "z", "c=z", 200),
        ("x", "yz", "c=z", 200),
        ("x:y", "z", "c=z", 200),
        ("x", "y:z", "c=z", 200),
        ("y", "x", "c=z", 200),
        ("x", "z", "c=y", 200),
        // As they would read if nothing told where one ends.
        ("xheaderbvaluey", "z", "c=z", 200),
        ("x", "yheaderbvaluez", "c=z", 200),
    ] {
        let headers = [("a", a), ("b", b), ("cookie", c)];
        assert_eq!(
            get(&bench.client, "/", &headers).await,
            status,
            "{headers:?}"
        );
    }
    bench.stop().await;
}

#[tokio::test]
async fn b11_parts_of_a_key_cannot_flow_into_each_other() {
    on_both_stores(parts).await;
}

async fn nasty_users(store: &str) {
    let bench = of_users(store, "fixed_window: { limit: 3, window: 31d }").await;
    let client = at(&bench, 1);
    for remaining in [2, 1] {
        for user in NASTY {
            let bearer = bearer(user);
            let told = left(&client, "/", &[("authorization", &bearer)]).await;
            assert_eq!(told, remaining, "{user:?}");
        }
    }
    // The address of the same name has a budget of its own, and whoever has no proper name is that address.
    for (user, remaining) in CONTROL.iter().zip([2, 1, 0]) {
        let bearer = bearer(user);
        let told = left(&client, "/", &[("authorization", &bearer)]).await;
        assert_eq!(told, remaining, "{user:?}");
    }
    assert_eq!(get(&client, "/", &[]).await, 429);
    bench.stop().await;
}

#[tokio::test]
async fn b11_users_with_any_characters_are_one_client_each() {
    on_both_stores(nasty_users).await;
}

#[tokio::test]
async fn b11_users_with_any_characters_leave_nothing_of_them_in_redis() {
    let redis = RedisServer::start().await;
    let limit =
        "fixed_window: { limit: 3, window: 31d }, per: [client, method, \"header:x-tenant\"]";
    let bench = of_users(&exact(&redis), limit).await;
    let client = at(&bench, 1);
    for user in NASTY.iter().chain(&CONTROL[..3]) {
        let bearer = bearer(user);
        let headers = [("authorization", bearer.as_str()), ("x-tenant", "*}:{a}")];
        let answer = send(&client, http::Method::GET, "/", &headers).await;
        assert_eq!(answer.status, 200, "{user:?}");
    }
    let keys = limit_keys(&redis).await;
    // Those that no user may be called are the address.
    assert_eq!(keys.len(), NASTY.len() + 1, "{keys:?}");
    all_keys_are_ours_and_end(&redis).await;
    bench.stop().await;
}

/// The slot of a key in a Redis Cluster, by the part of it that is hashed.
fn slot(key: &str) -> u16 {
    let hashed = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'));
    crc16(hashed.unwrap().0.as_bytes()) % 16_384
}

/// CRC16-XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => (crc << 1) ^ 0x1021,
        })
    })
}

#[tokio::test]
async fn b12_users_who_name_a_slot_are_spread_over_all_slots() {
    const USERS: u32 = 1_000;
    assert_eq!(
        crc16(b"123456789"),
        0x31c3,
        "the specification's own example"
    );
    let redis = RedisServer::start().await;
    let bench = of_users(&exact(&redis), "fixed_window: { limit: 3, window: 31d }").await;
    let proxy = at(&bench, 1);
    for user in 0..USERS {
        let user = format!("{{a}}{user}");
        assert_eq!(ask(&proxy, "/", &[("x-user-id", &user)]).await.status, 200);
    }
    let keys = limit_keys(&redis).await;
    let slots: HashSet<u16> = keys.iter().map(|key| slot(key)).collect();
    // Of 16,384 slots that are drawn 1,000 times, so many are hit on average.
    let expected = 16_384.0 * (1.0 - (1.0 - 1.0 / 16_384.0_f64).powi(1_000));
    assert_eq!(keys.len(), 1_000);
    assert!(
        slots.len() as f64 > 0.9 * expected,
        "{} of {expected}",
        slots.len()
    );
    bench.stop().await;
}
