//! What holds if several things are said of one client: the table of docs/overrides.md.

use super::numbers::numbers;
use super::*;

/// A gateway whose configuration says something of everybody.
async fn start(store: &str) -> Bench {
    Bench::start(&format!(
        "
{store}
{TRUST}
clients: [{{ api_key: {{ unknown: reject, keys: [{}, {}] }} }}, {{ user_id: {{}} }}]
deny: [\"user_id:denied\", \"user_id:denied-too\", 203.0.113.0/24]
exempt: [\"user_id:exempt\"]
limits:
  guard: {{ fixed_window: {{ limit: 100, window: 31d }}, per: [ip] }}
  it: {{ fixed_window: {{ limit: 3, window: 31d }} }}
plans:
  gold: {{ it: {{ fixed_window: {{ limit: 9, window: 31d }} }} }}
  free: {{ it: {{ fixed_window: {{ limit: 1, window: 31d }} }} }}
always: [guard]
routes:
  - {{ path: /office, upstream: UPSTREAM, limits: [it], allow: [10.0.0.0/8] }}
  - {{ path: /**, upstream: UPSTREAM, limits: [it] }}
",
        listed("plain"),
        listed("golden").replace(" }", ", plan: gold }")
    ))
    .await
}

#[tokio::test]
async fn the_table_of_the_docs_holds() {
    on_both_stores(async |store| {
        let bench = start(store).await;
        let admin = bench.gateway.admin;
        let user = |id: &'static str| ("x-user-id", id);
        let from = |address: &'static str| ("x-forwarded-for", address);
        for (name, wanted) in [
            // `deny` and any override: `deny`.
            ("user_id:denied", exempt()),
            ("203.0.113.7", exempt()),
            // `block`, and `exempt` in the configuration or by another override: `block`.
            ("user_id:exempt", block()),
            ("198.51.100.0/24", block()),
            ("198.51.100.7", exempt()),
            ("user_id:vip", exempt()),
            // By name, and by network: the name.
            ("192.0.2.0/24", plan("gold")),
            ("user_id:poor", plan("free")),
            ("user_id:few", numbers("it", "limit: 2, window: 31d")),
            ("user_id:denied-too", numbers("it", "limit: 2, window: 31d")),
            ("198.18.0.0/16", numbers("it", "limit: 8, window: 31d")),
            // Two networks: the longest.
            ("192.0.2.128/25", plan("free")),
            ("192.0.2.200", exempt()),
            // The plan of an API key: the override.
            ("api_key:golden", plan("free")),
            // An API key that is blocked also blocks a request that is a user's.
            ("api_key:plain", block()),
        ] {
            set(admin, name, wanted).await;
        }
        let client = Client::new(bench.gateway.address).knows("www-authenticate");
        let limit = |answer: &Answer| (answer.status.as_u16(), told(answer).1);
        for (headers, expected) in [
            (&[user("denied")][..], (403, None)),
            (&[from("203.0.113.7")], (403, None)),
            (&[user("exempt")], (403, None)),
            (&[from("198.51.100.7")], (403, None)),
            (&[from("198.51.100.8"), user("vip")], (403, None)),
            (&[from("192.0.2.1")], (200, Some(9))),
            (&[from("192.0.2.1"), user("someone")], (200, Some(9))),
            (&[from("192.0.2.1"), user("poor")], (200, Some(1))),
            (&[from("192.0.2.1"), user("few")], (200, Some(2))),
            (&[from("198.51.100.8"), user("few")], (403, None)),
            (&[user("denied-too")], (403, None)),
            (&[from("198.18.0.1")], (200, Some(8))),
            (&[("x-api-key", "guess"), from("198.18.0.1")], (401, None)),
            (&[from("192.0.2.129")], (200, Some(1))),
            (&[("x-api-key", "golden-key")], (200, Some(1))),
            (&[("x-api-key", "plain-key"), user("vip")], (403, None)),
            // A key that is refused stays refused, whatever its address has.
            (&[("x-api-key", "guess"), from("192.0.2.1")], (401, None)),
            (&[("x-api-key", "guess"), from("192.0.2.200")], (401, None)),
            (&[user("nobody-special"), from("192.1.0.0")], (200, Some(3))),
        ] {
            let answer = ask(&client, "/", headers).await;
            assert_eq!(limit(&answer), expected, "{headers:?}");
        }
        // An `allow` without the client, and any override: denied.
        let answer = ask(&client, "/office", &[user("vip")]).await;
        assert_eq!(limit(&answer), (403, None));
        // `exempt` in the configuration, and a plan or numbers by override: exempt.
        for wanted in [plan("free"), numbers("it", "limit: 1, window: 31d")] {
            clear(admin, "user_id:exempt").await;
            set(admin, "user_id:exempt", wanted).await;
            for _ in 0..3 {
                let answer = ask(&bench.client, "/", &[user("exempt")]).await;
                assert_eq!(limit(&answer), (200, None));
            }
        }
        bench.stop().await;
    })
    .await;
}

/// A plan that a reload takes away leaves the override of it without effect, and gives it its effect back.
#[tokio::test]
async fn an_override_with_a_plan_that_is_gone_changes_nothing() {
    let bench = Bench::start(&limited("")).await;
    let whole = limited("").replace("UPSTREAM", &bench.upstream.url());
    let without: String = whole
        .lines()
        .filter(|line| !line.starts_with("plans:"))
        .map(|line| format!("{line}\n"))
        .collect();
    set(bench.gateway.admin, "user_id:42", plan("gold")).await;
    for (yaml, limit) in [(&whole, 9), (&without, 3), (&whole, 9)] {
        bench.gateway.reload(yaml).await;
        let answer = ask(&bench.client, "/", &[("x-user-id", "42")]).await;
        assert_eq!(told(&answer).1, Some(limit));
    }
    bench.stop().await;
}
