//! Who is charged to nothing, who is refused, and who must show credentials, on both stores.

mod explain;
mod file;
mod precedence;

use http::{Method, StatusCode};
use serde_json::{Value, json};
use tidegate_testkit::{Answer, Client, Upstream};

use crate::callers::{JWT, TRUST, ask, bearer, listed};
use crate::kit::{Bench, LONG, on_both_stores, sample, send, shown, tells_of_limits, told};
use crate::support::GatewayProcess;

/// An address that a trusted proxy names.
fn from(address: &str) -> (&'static str, &str) {
    ("x-forwarded-for", address)
}

fn user(id: &str) -> (&'static str, &str) {
    ("x-user-id", id)
}

/// The `error` of an answer of the gateway's own.
fn error(answer: &Answer) -> Value {
    let problem: Value = serde_json::from_str(answer.text()).unwrap();
    problem["error"].clone()
}

#[track_caller]
fn is_denied(answer: &Answer) {
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert_eq!(error(answer), "denied");
    assert!(!tells_of_limits(answer));
}

#[tokio::test]
async fn an_exempt_request_is_charged_to_nothing() {
    on_both_stores(async |store| {
        let bench = Bench::start(&format!(
            "
{store}
{TRUST}
clients: [{{ api_key: {{ keys: [{}] }} }}, {{ user_id: {{}} }}]
exempt: [10.0.0.0/8, api_key:monitor, 2001:db8::7]
limits:
  guard: {{ fixed_window: {{ limit: 1, window: 31d }}, per: [ip] }}
  shared: {{ fixed_window: {{ limit: 5, window: 31d }}, per: [] }}
  running: {{ concurrency: {{ limit: 1 }} }}
always: [guard]
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [shared, running] }}
",
            listed("monitor")
        ))
        .await;
        let client = &bench.client;
        for caller in [
            from("10.1.2.3"),
            ("x-api-key", "monitor-key"),
            from("2001:db8::7"),
        ] {
            for _ in 0..7 {
                let answer = ask(client, "/", &[caller]).await;
                assert_eq!(told(&answer), (200, None, None), "{caller:?}");
            }
        }
        // Nothing was charged to the budget of all, and a neighbour in the same /64 is nobody special.
        for (address, status) in [
            ("2001:db8::8", 200),
            ("2001:db8::8", 429),
            ("192.0.2.1", 200),
        ] {
            let answer = ask(client, "/", &[from(address)]).await;
            assert_eq!(answer.status, status, "{address}");
        }
        let counted = "tidegate_exempt_requests_total{route=\"/**\"}";
        assert_eq!(sample(bench.gateway.admin, counted).await, 21);
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_route_exempts_from_its_own_limits_and_a_limit_from_itself() {
    on_both_stores(async |store| {
        let bench = Bench::start(&format!(
            "
{store}
{TRUST}
clients: [{{ user_id: {{}} }}]
limits:
  guard: {{ fixed_window: {{ limit: 9, window: 31d }}, per: [ip] }}
  own: {{ fixed_window: {{ limit: 3, window: 31d }} }}
  export: {{ fixed_window: {{ limit: 2, window: 31d }}, exempt: [\"user_id:7\", 192.0.2.9] }}
always: [guard]
routes:
  - {{ path: /exempt, upstream: UPSTREAM, limits: [own, export], exempt: [\"user_id:8\"] }}
  - {{ path: /**, upstream: UPSTREAM, limits: [own, export] }}
"
        ))
        .await;
        let as_told = async |target: &str, address: &str, id: &str| {
            told(&ask(&bench.client, target, &[from(address), user(id)]).await)
        };
        // What is always charged is, and says so.
        assert_eq!(as_told("/exempt", "192.0.2.1", "8").await, shown(200, 9, 8));
        // The route's word does not reach another route.
        assert_eq!(as_told("/other", "192.0.2.1", "8").await, shown(200, 2, 1));
        // Not charged to `export`, and still to the others.
        for left in [2, 1, 0] {
            assert_eq!(
                as_told("/other", "192.0.2.2", "7").await,
                shown(200, 3, left)
            );
        }
        assert_eq!(as_told("/other", "192.0.2.2", "7").await, shown(429, 3, 0));
        assert_eq!(as_told("/other", "192.0.2.9", "1").await, shown(200, 3, 2));
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_denied_client_is_refused_before_any_limit() {
    on_both_stores(async |store| {
        let bench = Bench::start(&format!(
            "
{store}
{TRUST}
clients: [{{ api_key: {{ unknown: reject, keys: [{}, {}] }} }}, {{ user_id: {{}} }}]
deny: [192.0.2.0/24, api_key:bad, \"user_id:66\"]
limits:
  all: {{ fixed_window: {{ limit: 4, window: 31d }}, per: [] }}
  own: {{ fixed_window: {{ limit: 50, window: 31d }}, deny: [\"user_id:67\"] }}
always: [all]
routes:
  - {{ path: /closed, upstream: UPSTREAM, deny: [\"user_id:68\", 198.51.100.1] }}
  - {{ path: /own, upstream: UPSTREAM, limits: [own] }}
  - {{ path: /**, upstream: UPSTREAM }}
",
            listed("good"),
            listed("bad")
        ))
        .await;
        let client = Client::new(bench.gateway.address).knows("www-authenticate");
        for (target, caller) in [
            ("/", from("192.0.2.1")),
            ("/", ("x-api-key", "bad-key")),
            ("/", user("66")),
            ("/own", user("67")),
            ("/closed", user("68")),
            ("/closed", from("198.51.100.1")),
            // Whatever is asked for, and in whatever form.
            ("/%2f", from("192.0.2.1")),
        ] {
            is_denied(&ask(&client, target, &[caller]).await);
        }
        // An address that is denied is, also with a key that is not known.
        let both = [from("192.0.2.1"), ("x-api-key", "made-up")];
        is_denied(&ask(&client, "/", &both).await);
        assert_eq!(bench.upstream.count(), 0);
        // Elsewhere they are served; nothing of the above was charged.
        for (target, caller) in [
            ("/", user("67")),
            ("/own", user("68")),
            ("/", from("198.51.100.1")),
            ("/", ("x-api-key", "good-key")),
        ] {
            assert_eq!(
                ask(&client, target, &[caller]).await.status,
                200,
                "{caller:?}"
            );
        }
        assert_eq!(ask(&client, "/", &[]).await.status, 429);
        bench.stop().await;
    })
    .await;
}

/// A token is not verified for an address that is denied, nor for one that a limit refuses, but for a user who may be exempt.
#[tokio::test]
async fn an_exempt_user_is_served_from_an_address_that_used_its_limit_up() {
    on_both_stores(async |store| {
        let bench = Bench::start(&format!(
            "
{store}
{TRUST}
clients: [{{ jwt: {{ {JWT} }} }}]
exempt: [\"user_id:7\"]
limits:
  guard: {{ fixed_window: {{ limit: 1, window: 31d }}, per: [ip] }}
always: [guard]
routes:
  - {{ path: /**, upstream: UPSTREAM }}
"
        ))
        .await;
        let (exempt, other) = (bearer("7"), bearer("8"));
        for (bearer, status) in [(&other, 200), (&other, 429), (&exempt, 200), (&exempt, 200)] {
            let answer = ask(&bench.client, "/", &[("authorization", bearer)]).await;
            assert_eq!(answer.status, status);
        }
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn the_log_and_the_metrics_tell_who_was_denied_and_exempt_by_what() {
    let upstream = Upstream::ok();
    let gateway = GatewayProcess::start(&format!(
        "
{TRUST}
clients: [{{ user_id: {{}} }}]
exempt: [10.0.0.0/8]
deny: [\"user_id:42\"]
limits: {{ own: {{ fixed_window: {{ limit: 1, window: 31d }} }} }}
routes: [{{ name: api, path: /**, upstream: \"{}\", limits: [own] }}]
",
        upstream.url()
    ))
    .await;
    let client = Client::new(gateway.address);
    for (caller, status) in [(user("42"), 403), (from("10.0.0.1"), 200), (user("1"), 200)] {
        assert_eq!(ask(&client, "/", &[caller]).await.status, status);
    }
    let line = async |nth| -> Value {
        let access = "\"target\":\"access\"";
        let line = gateway.process.wait_for_nth_line(access, nth, LONG).await;
        serde_json::from_str(&line).unwrap()
    };
    let (denied, exempt, plain) = (line(1).await, line(2).await, line(3).await);
    let fields = ["outcome", "denied_by", "exempt", "error"];
    let of = |line: &Value| json!(fields.map(|field| line[field].clone()));
    let user = json!(["denied", "user_id:42", null, "denied"]);
    assert_eq!(of(&denied), user);
    let network = json!(["forwarded", null, "10.0.0.0/8", null]);
    assert_eq!(of(&exempt), network);
    assert_eq!(of(&plain), json!(["forwarded", null, null, null]));
    for counted in [
        "tidegate_requests_total{route=\"api\",outcome=\"denied\",status=\"4xx\"}",
        "tidegate_exempt_requests_total{route=\"api\"}",
    ] {
        assert_eq!(sample(gateway.admin, counted).await, 1);
    }
    let status = crate::status::status(gateway.admin).await;
    assert_eq!(status.requests.outcomes["denied"], 1);
}

#[tokio::test]
async fn what_is_required_must_be_shown() {
    on_both_stores(async |store| {
        let bench = Bench::start(&format!(
            "
{store}
{TRUST}
clients:
  - api_key: {{ keys: [{}] }}
  - jwt: {{ {JWT} }}
  - user_id: {{}}
require: verified
limits:
  guard: {{ fixed_window: {{ limit: 3, window: 31d }}, per: [ip] }}
always: [guard]
routes:
  - {{ path: /key, upstream: UPSTREAM, require: api_key }}
  - {{ path: /token, upstream: UPSTREAM, require: jwt }}
  - {{ path: /open, upstream: UPSTREAM, require: none }}
  - {{ path: /page, upstream: UPSTREAM, cors: {{ origins: [\"https://app.example.com\"] }} }}
  - {{ path: /any, upstream: UPSTREAM }}
",
            listed("acme")
        ))
        .await;
        let bearer = bearer("1");
        let (key, made_up) = (("x-api-key", "acme-key"), ("x-api-key", "made-up"));
        let token = ("authorization", &*bearer);
        let names = ["www-authenticate", "access-control-allow-origin", "vary"];
        let names = names.into_iter().chain([
            "access-control-allow-methods",
            "access-control-allow-headers",
            "access-control-max-age",
            "access-control-expose-headers",
        ]);
        let client = names.fold(Client::new(bench.gateway.address), Client::knows);
        let mut address = 0;
        for (target, caller, status) in [
            ("/key", Some(key), 200),
            ("/key", Some(token), 401),
            ("/key", Some(user("1")), 401),
            ("/key", None, 401),
            ("/key", Some(made_up), 401),
            ("/token", Some(token), 200),
            ("/token", Some(key), 401),
            ("/token", Some(user("1")), 401),
            ("/any", Some(key), 200),
            ("/any", Some(token), 200),
            ("/any", Some(user("1")), 200),
            ("/any", Some(made_up), 401),
            ("/any", None, 401),
            ("/open", None, 200),
            ("/nowhere", None, 404),
        ] {
            // Each from an address of its own, so that no limit has a say.
            address += 1;
            let address = format!("192.0.2.{address}");
            let headers: Vec<_> = [from(&address)].into_iter().chain(caller).collect();
            let answer = ask(&client, target, &headers).await;
            assert_eq!(answer.status, status, "{target} {caller:?}");
            if status == 401 {
                assert_eq!(error(&answer), "credentials_required");
                assert!(answer.header("www-authenticate").is_some());
            }
        }
        // A browser asks first, without credentials.
        let asked = [
            ("origin", "https://app.example.com"),
            ("access-control-request-method", "GET"),
        ];
        let answer = send(&client, Method::OPTIONS, "/page", &asked).await;
        assert_eq!(answer.status, 204);
        // Whoever tries is limited.
        let guesser = from("198.51.100.7");
        for status in [401, 401, 401, 429] {
            assert_eq!(ask(&client, "/any", &[guesser]).await.status, status);
        }
        bench.stop().await;
    })
    .await;
}

/// A NAT64 writes addresses of IPv4 as those of IPv6, and so may who denies them.
#[tokio::test]
async fn an_entry_means_an_address_however_both_are_written() {
    on_both_stores(async |store| {
        let bench = Bench::start(&format!(
            "
{store}
{TRUST}
deny: [\"64:ff9b::c000:201\", \"64:ff9b::c633:6400/120\"]
limits: {{ own: {{ fixed_window: {{ limit: 100, window: 31d }} }} }}
routes: [{{ path: /**, upstream: UPSTREAM, limits: [own] }}]
"
        ))
        .await;
        for address in [
            "192.0.2.1",
            "64:ff9b::c000:201",
            "::ffff:192.0.2.1",
            "198.51.100.9",
        ] {
            is_denied(&ask(&bench.client, "/", &[from(address)]).await);
        }
        for address in ["192.0.2.2", "64:ff9b::c000:202"] {
            let answer = ask(&bench.client, "/", &[from(address)]).await;
            assert_eq!(answer.status, 200, "{address}");
        }
        bench.stop().await;
    })
    .await;
}

/// The name of a plan may have a variable, as any value.
#[tokio::test]
async fn members_of_a_plan_whose_name_has_a_variable_have_the_plan() {
    on_both_stores(async |store| {
        let bench = Bench::start(&format!(
            "
{store}
{TRUST}
clients: [{{ user_id: {{}} }}]
limits: {{ own: {{ fixed_window: {{ limit: 10, window: 31d }} }} }}
plans:
  \"${{PLAN:-gold}}\": {{ members: [\"user_id:7\"], own: {{ fixed_window: {{ limit: 30, window: 31d }} }} }}
routes: [{{ path: /**, upstream: UPSTREAM, limits: [own] }}]
"
        ))
        .await;
        let answer = ask(&bench.client, "/", &[user("7")]).await;
        assert_eq!(told(&answer), shown(200, 30, 29));
        bench.stop().await;
    })
    .await;
}
