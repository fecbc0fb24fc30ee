//! A header that names a caller, in spellings that only some servers take for it.

use serde_json::json;
use tidegate_testkit::{Message, RawClient};

use crate::callers::{FAR, JWT, TOKEN_KEY, at, bearer, last_client, left, listed, token};
use crate::kit::{Bench, answer_to, get, on_both_stores};

/// What Apache, lighttpd, nginx or Go's CGI make one variable of.
fn spellings(name: &str) -> Vec<String> {
    let by = |other: &str| name.replace('-', other);
    let last = name.rsplit_once('-').unwrap();
    vec![
        by("_"),
        by("."),
        by("~"),
        by("!"),
        by("|"),
        format!("{}_{}", last.0, last.1),
        format!("{}.{}", last.0, last.1),
    ]
}

/// How a server that folds names calls a header.
fn folded(name: &str) -> String {
    let fold = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    name.chars().map(fold).collect()
}

/// Everything that a limit can be counted by; 127.0.0.1 is trusted.
async fn reading(store: &str) -> Bench {
    Bench::start(&format!(
        "
{store}
trusted_proxies: [127.0.0.1]
clients:
  - api_key: {{ unknown: reject, keys: [{}] }}
  - jwt: {{ header: X-Token, {JWT} }}
  - user_id: {{}}
  - ip: {{}}
forward_client: X-Client-Id
limits:
  own: {{ fixed_window: {{ limit: 1000, window: 31d }} }}
  tenant: {{ fixed_window: {{ limit: 1000, window: 31d }}, per: [\"header:X-Tenant\"] }}
  priced: {{ fixed_window: {{ limit: 1000, window: 31d }}, cost: {{ header: X-Cost, max: 9 }} }}
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [own, tenant, priced] }}
",
        listed("alpha"),
    ))
    .await
}

async fn other_spellings(store: &str) {
    let bench = reading(store).await;
    let bearer = token(TOKEN_KEY, &json!({ "sub": "rider", "exp": FAR }));
    for (name, value) in [
        ("x-api-key", "alpha-key"),
        ("x-token", &bearer),
        ("x-user-id", "rider"),
        ("x-client-id", "api_key:alpha"),
        ("x-tenant", "acme"),
        ("x-cost", "9"),
    ] {
        for spelling in spellings(name) {
            for peer in [1, 2] {
                let status = get(&at(&bench, peer), "/", &[(&spelling, value)]).await;
                assert_eq!(status, 200, "{spelling}");
                assert_eq!(last_client(&bench), format!("ip:127.0.0.{peer}"));
                let seen = bench.upstream.requests().pop().unwrap();
                let mut names = seen.headers.keys().map(|name| name.as_str());
                let same = names.find(|seen| {
                    folded(seen) == folded(name) && !(*seen == name && name == "x-client-id")
                });
                assert_eq!(same, None, "{spelling} of 127.0.0.{peer} goes on");
            }
        }
    }
    bench.stop().await;
}

#[tokio::test]
async fn another_spelling_of_a_header_that_is_read_reaches_nobody() {
    on_both_stores(other_spellings).await;
}

/// The name in the configuration is the one that counts, whichever it is.
#[tokio::test]
async fn a_name_with_an_underscore_has_other_spellings_too() {
    let bench = Bench::start(&format!(
        "
clients: [{{ api_key: {{ header: X_API_Key, unknown: reject, keys: [{}] }} }}]
forward_client: X-Client-Id
routes: [{{ path: /**, upstream: UPSTREAM }}]
",
        listed("alpha"),
    ))
    .await;
    let client = at(&bench, 2);
    assert_eq!(get(&client, "/", &[("x_api_key", "alpha-key")]).await, 200);
    assert_eq!(last_client(&bench), "api_key:alpha");
    assert_eq!(get(&client, "/", &[("x-api-key", "stolen")]).await, 200);
    assert_eq!(last_client(&bench), "ip:127.0.0.2");
    let seen = bench.upstream.requests().pop().unwrap();
    assert_eq!(seen.header("x-api-key"), None);
    bench.stop().await;
}

async fn raw(bench: &Bench, last: u8, lines: &str) -> Message {
    let mut client = RawClient::connect_from([127, 0, 0, last], bench.gateway.address).await;
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
    answer_to(&mut client, &request).await
}

/// `always` allows two requests of an address.
async fn two_values(store: &str) {
    let bench = Bench::start(&format!(
        "
{store}
trusted_proxies: [127.0.0.1]
clients:
  - api_key: {{ keys: [{}] }}
  - jwt: {{ {JWT} }}
  - user_id: {{}}
limits:
  guard: {{ fixed_window: {{ limit: 2, window: 31d }}, per: [ip] }}
  own: {{ fixed_window: {{ limit: 9, window: 31d }}, per: [client] }}
always: [guard]
routes: [{{ path: /**, upstream: UPSTREAM, limits: [own] }}]
",
        listed("alpha"),
    ))
    .await;
    let bearer = format!("Authorization: {}\r\n", bearer("rider"));
    let key = "X-API-Key: alpha-key\r\n";
    for (peer, lines) in [
        (2, format!("{key}{key}")),
        (3, format!("{key}X-API-Key: other\r\n")),
        (4, format!("X-API-Key:\r\n{key}")),
        (5, format!("{bearer}{bearer}")),
        (6, format!("Authorization: Basic eDp5\r\n{bearer}")),
        (7, format!("{key}{bearer}{bearer}")),
        (1, "X-User-Id: rider\r\nX-User-Id: other\r\n".to_owned()),
    ] {
        for _ in 0..2 {
            let answer = raw(&bench, peer, &lines).await;
            assert_eq!(answer.status(), 400, "{lines}");
            let details: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!(details["error"], "ambiguous_credentials", "{details}");
        }
        // It is charged to what is always charged, as guessing is.
        assert_eq!(raw(&bench, peer, &lines).await.status(), 429, "{lines}");
    }
    assert_eq!(bench.upstream.count(), 0);
    // Nobody else paid for it, and what nobody is believed about is only removed.
    let headers = [("x-api-key", "alpha-key")];
    assert_eq!(left(&at(&bench, 8), "/", &headers).await, 1);
    let users = raw(&bench, 9, "X-User-Id: a\r\nX-User-Id: b\r\n").await;
    assert_eq!(users.status(), 200);
    bench.stop().await;
}

#[tokio::test]
async fn two_values_of_a_header_that_names_a_caller_are_refused_and_charged() {
    on_both_stores(two_values).await;
}
