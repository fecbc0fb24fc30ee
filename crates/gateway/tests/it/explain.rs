//! `tidegate explain`: what a request would meet, in the words of the configuration, without charging anything.

mod callers;

use std::collections::BTreeSet;

use tempfile::TempDir;
use tidegate_testkit::{Client, RedisServer, Upstream};

use crate::callers::{FAR, limit_keys, listed, token};
use crate::kit::{exact, get};
use crate::support::GatewayProcess;
use crate::support::commands::{explained, written};

/// The SHA-256 of "alpha-key".
const ALPHA: &str = "677509799af78b2efa2f2af71d0f906e0a0c50c048efd3b515625f788e92b99a";

/// What follows `store` in the configuration of these tests.
fn rest(upstream: &str) -> String {
    format!(
        "
secret: a secret
trusted_proxies: [127.0.0.1]
clients: [{{ api_key: {{ keys: [{{ name: alpha, hash: sha256:{ALPHA} }}] }} }}, {{ user_id: {{}} }}]
limits:
  guard: {{ token_bucket: {{ capacity: 200, refill: 100/h }}, per: [ip] }}
  own: {{ fixed_window: {{ limit: 60, window: 31d }} }}
  split: {{ leaky_bucket: {{ queue: 5, drain: 1/h }}, per: [client, route] }}
  all: {{ sliding_window_log: {{ limit: 7, window: 1h }}, per: [] }}
always: [guard]
routes:
  - name: rides
    host: api.example.com
    path: /rides/**
    methods: [GET]
    upstream: {upstream}
    limits: [own, split]
  - {{ name: everybody, path: /all, upstream: \"{upstream}\", limits: [all] }}
"
    )
}

/// A configuration to ask about.
struct Asked(TempDir);

impl Asked {
    fn new(yaml: &str) -> Self {
        Self(written(yaml).0)
    }

    fn in_memory() -> Self {
        Self::new(&rest("http://127.0.0.1:9000"))
    }

    /// What is printed, line by line.
    fn explain(&self, arguments: &[&str]) -> Vec<String> {
        explained(&self.0, arguments)
    }

    /// What stands behind a word.
    fn told(&self, word: &str, arguments: &[&str]) -> String {
        let lines = self.explain(arguments);
        let told = lines
            .iter()
            .find_map(|line| line.strip_prefix(&format!("{word}:")));
        told.unwrap_or_else(|| panic!("no {word} in {lines:?}"))
            .trim()
            .to_owned()
    }
}

#[test]
fn it_names_route_client_limits_and_keys() {
    let lines = Asked::in_memory().explain(&[
        "GET",
        "http://api.example.com/rides/5",
        "-H",
        "X-API-Key: alpha-key",
    ]);
    // Keys are hashed with the secret; what is not hash is told in full.
    let (keys, others): (Vec<_>, Vec<_>) =
        lines.iter().partition(|line| line.starts_with("  key: "));
    assert_eq!(
        others,
        [
            "route:    rides",
            "upstream: http://127.0.0.1:9000",
            "client:   api_key:alpha, named by api_key: the header x-api-key",
            "limit:    guard, a token_bucket of 200, per ip",
            "  quota:  capacity 200, refill 100/h",
            "limit:    own, a fixed_window of 60, per client",
            "  quota:  limit 60, window 31d",
            "limit:    split, a leaky_bucket of 5, per client and route; what it admits waits for its turn",
            "  quota:  queue 5, drain 1/h",
        ]
    );
    for (key, name) in keys.iter().zip([
        "guard:token_bucket",
        "own:fixed_window/2678400000000",
        "split:leaky_bucket:",
    ]) {
        assert!(
            key.contains("tidegate:{") && key.contains(&format!("}}:{name}")),
            "{key}"
        );
    }
    assert_eq!(keys.len(), 3);
    let tag = |key: &str| key[key.find('{').unwrap()..key.find('}').unwrap()].to_owned();
    assert_eq!(tag(keys[1]), tag(keys[2]), "one client");
    assert_ne!(tag(keys[0]), tag(keys[1]), "an address is another");
}

#[test]
fn a_health_check_meets_nothing() {
    let rest = rest("http://127.0.0.1:9000");
    let asked = Asked::new(&format!("health: /healthz\n{rest}"));
    assert_eq!(
        asked.explain(&["OPTIONS", "/healthz"]),
        [
            "answer:   200, or 503 if not ready, by the gateway itself, for `health` has this path; nothing is charged"
        ]
    );
    assert!(asked.explain(&["POST", "/healthz"])[0].starts_with("route:"));
}

#[test]
fn it_shows_the_choice_of_servers_of_sticky_sessions() {
    let upstreams = "upstreams: { group: { servers: [http://127.0.0.1:9000, http://127.0.0.1:9001], \
                     balance: { hash: \"header:X-Tenant\" } } }\n";
    let lines = Asked::new(&format!("{}{upstreams}", rest("group"))).explain(&["GET", "/all"]);
    let shown = "balance:  { hash: header:x-tenant }";
    assert!(lines.iter().any(|line| line == shown), "{lines:?}");
}

#[test]
fn what_no_route_takes_meets_what_is_always_charged() {
    let asked = Asked::in_memory();
    for (arguments, status) in [
        (&["GET", "/nowhere"][..], "404 Not Found"),
        (
            &["POST", "http://api.example.com/rides/5"],
            "405 Method Not Allowed",
        ),
        (
            &["GET", "http://api.example.com/rides/%zz"],
            "400 Bad Request",
        ),
        (&["GET", "/rides/5"], "404 Not Found"),
        (
            &["post", "http://api.example.com/rides/5"],
            "400 Bad Request",
        ),
    ] {
        let mut lines = asked.explain(arguments);
        assert_eq!(lines[0], format!("route:    none; answered {status}"));
        if status.starts_with("405") {
            assert_eq!(lines.remove(1), "passed:   rides, which serves GET, HEAD");
        }
        assert_eq!(
            lines[1],
            "client:   ip:127.0.0.1, because no source named a client"
        );
        assert!(lines[2].starts_with("limit:    guard,"), "{lines:?}");
        assert_eq!(lines.len(), 5, "{lines:?}");
    }
}

#[test]
fn a_host_may_stand_in_the_url_or_in_a_header_which_wins() {
    let asked = Asked::in_memory();
    let url = [
        "GET",
        "http://127.0.0.1:8080/rides/5",
        "-H",
        "Host: api.example.com",
    ];
    assert_eq!(asked.told("route", &url), "rides");
    let path = ["GET", "/rides/5?a=b", "-H", "host: API.example.com:8080"];
    assert_eq!(asked.told("route", &path), "rides");
    let other = [
        "GET",
        "http://api.example.com/rides/5",
        "-H",
        "Host: example.com",
    ];
    assert_eq!(asked.told("route", &other), "none; answered 404 Not Found");
}

#[test]
fn the_keys_of_gateways_that_made_their_secret_are_not_known() {
    let store = "store: { redis: { url: \"redis://127.0.0.1:1\" } }";
    let yaml = rest("http://127.0.0.1:9000").replace("secret: a secret", store);
    let lines = Asked::new(&yaml).explain(&["GET", "/all"]);
    let keys: Vec<_> = lines
        .iter()
        .filter(|line| line.starts_with("  key: "))
        .collect();
    assert_eq!(keys.len(), 2, "{lines:?}");
    for key in keys {
        assert!(
            key.contains("not known here") && !key.contains('{'),
            "{key}"
        );
    }
}

#[test]
fn a_limit_for_all_is_told_as_such() {
    let lines = Asked::in_memory().explain(&["GET", "/all"]);
    let all = "limit:    all, a sliding_window_log of 7, per nothing: one budget for all";
    assert!(lines.iter().any(|line| line == all), "{lines:?}");
}

/// The keys that it names are those that a gateway writes, and it writes none itself.
#[tokio::test]
async fn it_names_the_keys_of_a_running_gateway_and_charges_nothing() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let yaml = format!("{}{}", exact(&redis), rest(&upstream.url()));
    let yaml = yaml.replace("timeout: 5s", "timeout: 5s, key_prefix: \"own.prefix\"");
    let asked = Asked::new(&yaml);
    let written = async || -> BTreeSet<String> {
        let keys = limit_keys(&redis).await.into_iter();
        keys.filter(|key| key != "own.prefix:secret").collect()
    };
    let arguments = [
        "GET",
        "http://api.example.com/rides/5",
        "-H",
        "X-User-Id: rider-7",
    ];
    let lines = asked.explain(&arguments);
    assert!(
        written().await.is_empty(),
        "explaining left something behind"
    );
    let keys = lines
        .iter()
        .filter_map(|line| line.trim().strip_prefix("key:"));
    let named: BTreeSet<String> = keys.map(|key| key.trim().to_owned()).collect();
    assert_eq!(named.len(), 3, "{lines:?}");
    assert!(
        named.iter().all(|key| key.starts_with("own.prefix:{")),
        "{named:?}"
    );

    let gateway = GatewayProcess::start(&yaml).await;
    let headers = [("host", "api.example.com"), ("x-user-id", "rider-7")];
    assert_eq!(
        get(&Client::new(gateway.address), "/rides/5", &headers).await,
        200
    );
    let mut found = written().await;
    assert!(found.remove("own.prefix:gateways"), "the gateway calls in");
    assert_eq!(found, named);
}

#[test]
fn it_names_the_plan_and_its_numbers() {
    let asked = Asked::new(&format!(
        "
clients:
  - api_key: {{ keys: [{}] }}
  - jwt: {{ algorithms: [HS256], key_file: token.key, plan_claim: tier }}
limits:
  burst: {{ token_bucket: {{ capacity: 20, refill: 10/s }} }}
  daily: {{ fixed_window: {{ limit: 60, window: 1d }} }}
  guard: {{ fixed_window: {{ limit: 5, window: 1d }}, per: [ip] }}
plans:
  gold:
    burst: {{ token_bucket: {{ capacity: 200, refill: 100/s }} }}
    daily: unlimited
    guard: {{ fixed_window: {{ limit: 50, window: 1d }} }}
routes:
  - {{ path: /**, upstream: http://127.0.0.1:9000, limits: [burst, daily, guard] }}
",
        listed("alpha").replace(" }", ", plan: gold }")
    ));
    std::fs::write(asked.0.path().join("token.key"), "the tokens' secret").unwrap();
    let lines = |more: &[&str]| {
        let lines = asked.explain(&[&["GET", "/"], more].concat());
        let lines = lines.into_iter().skip(3);
        let lines: Vec<String> = lines.filter(|line| !line.contains("key:")).collect();
        lines
    };
    let gold = lines(&["-H", "X-API-Key: alpha-key"]);
    let expected = [
        "plan:     gold",
        "limit:    burst, a token_bucket of 200, per client",
        "  quota:  capacity 200, refill 100/s; of the plan gold",
        "limit:    daily, unlimited under this plan",
        "limit:    guard, a fixed_window of 50, per ip and plan",
        "  quota:  limit 50, window 1d; of the plan gold",
    ];
    assert_eq!(gold, expected);
    let keys = asked.explain(&["GET", "/", "-H", "X-API-Key: alpha-key"]);
    for key in ["}:burst@gold:token_bucket", "}:guard@gold:fixed_window/"] {
        assert!(keys.iter().any(|line| line.contains(key)), "{keys:?}");
    }
    let bearer = |plan: &str| {
        let claims = serde_json::json!({ "sub": "rider-9", "exp": FAR, "tier": plan });
        let token = token("the tokens' secret", &claims);
        lines(&["-H", &format!("Authorization: Bearer {token}")])
    };
    assert_eq!(bearer("gold"), expected);
    let own = [
        "limit:    burst, a token_bucket of 20, per client",
        "  quota:  capacity 20, refill 10/s",
        "limit:    daily, a fixed_window of 60, per client",
        "  quota:  limit 60, window 1d",
        "limit:    guard, a fixed_window of 5, per ip and plan",
        "  quota:  limit 5, window 1d",
    ];
    assert_eq!(lines(&[]), own);
    let unknown = bearer("platinum");
    assert_eq!(
        unknown[0],
        "plan:     none, for `platinum` is not defined: the limits' own quotas"
    );
    assert_eq!(unknown[1..], own);
}

#[test]
fn it_names_costs_that_are_not_1() {
    let asked = Asked::new(
        "
trusted_proxies: [127.0.0.1]
limits:
  fixed: { token_bucket: { capacity: 20, refill: 10/s }, cost: 5 }
  told: { token_bucket: { capacity: 20, refill: 10/s }, cost: { header: X-Cost, max: 50 } }
routes:
  - { path: /**, upstream: http://127.0.0.1:9000, limits: [fixed, told] }
",
    );
    let costs = |more: &[&str]| {
        let lines = asked.explain(&[&["GET", "/"], more].concat());
        let limits = lines.iter().filter(|line| line.starts_with("limit:"));
        let costs = limits.map(|line| line.split_once("per client").unwrap().1.to_owned());
        costs.collect::<Vec<_>>()
    };
    assert_eq!(costs(&[]), ["; costs 5", ""]);
    assert_eq!(costs(&["-H", "X-Cost: 7"]), ["; costs 5", "; costs 7"]);
    let stranger = ["--peer", "192.0.2.1", "-H", "X-Cost: 7"];
    assert_eq!(costs(&stranger), ["; costs 5", ""]);
    assert_eq!(
        costs(&["-H", "X-Cost: 70"])[1],
        "; costs 50, which never fits: answered 400"
    );
}

#[test]
fn it_says_what_becomes_of_requests() {
    let limits = "
limits:
  queue: { leaky_bucket: { queue: 5, drain: 1/h, nodelay: true }, action: drop }
  places: { concurrency: { limit: 3 } }
  paced: { token_bucket: { capacity: 9, refill: 1/h }, action: { delay: { max: 2s } } }
  failed: { fixed_window: { limit: 4, window: 1h }, count: { status: [401, 5xx] } }
  told: { fixed_window: { limit: 50, window: 1h }, cost: { response_header: X-Cost, reserve: 10 } }
  tokens: { fixed_window: { limit: 50, window: 1h }, cost: { response_json: usage.total_tokens, reserve: 20 } }
  new: { fixed_window: { limit: 1, window: 1h }, cost: 1, action: observe }
  blocks: { sliding_window_log: { limit: 3, window: 90s }, block: 30m }
  month: { fixed_window: { limit: 8, window: 1mo, zone: Asia/Jakarta } }
routes: [{ path: /**, upstream: http://h, limits: [queue, places, paced, failed, told, tokens, new, blocks, month] }]
";
    let lines = Asked::new(limits).explain(&["GET", "/"]);
    let told: Vec<_> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("limit:    "))
        .collect();
    assert_eq!(
        told,
        [
            "queue, a leaky_bucket of 5, per client; drops what it refuses",
            "places, a concurrency of 3, per client",
            "paced, a token_bucket of 9, per client; what it refuses waits for up to 2s",
            "failed, a fixed_window of 4, per client; counts answers with 401, 5xx",
            "told, a fixed_window of 50, per client; reserves 10 until x-cost of the answer says what it costs",
            "tokens, a fixed_window of 50, per client; reserves 20 until usage.total_tokens in the answer's body says what it costs",
            "new, a fixed_window of 1, per client; only observes",
            "blocks, a sliding_window_log of 3, per client",
            "month, a calendar_window of 8, per client",
        ]
    );
    let quotas: Vec<_> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("  quota:  "))
        .collect();
    let expected = [
        "queue 5, drain 1/h",
        "limit 3, lease 10s",
        "capacity 9, refill 1/h",
        "limit 4, window 1h",
        "limit 50, window 1h",
        "limit 50, window 1h",
        "limit 1, window 1h",
        "limit 3, window 90s, block 30m",
        "limit 8, window 1mo, zone Asia/Jakarta",
    ];
    assert_eq!(quotas, expected);
}

#[test]
fn it_tells_what_a_route_changes_and_no_secret() {
    let asked = Asked::new(
        "upstreams: { pair: { servers: [http://a:1, { url: http://b:2, weight: 3 }] } }\n\
         routes:\n  - path: /api/**\n    name: api\n    upstream: pair\n    strip_prefix: /api\n    \
         upstream_host: api.internal\n    redirect: https:8443\n    retries: { attempts: 2 }\n    \
         request_headers: { set: { Authorization: hunter2 }, remove: [X-Kind] }\n    \
         response_headers: { remove: [Server, X-Powered-By] }\n",
    );
    let lines = asked.explain(&["GET", "/api/x"]);
    let expected = [
        "route:    api",
        "upstream: http://a:1, http://b:2 (weight 3)",
        "retries:  up to 2, of GET, HEAD and OPTIONS, within 20% of the requests",
        "redirect: to https at port 8443, without TLS",
        "path:     without its first segment",
        "host:     api.internal",
        "request:  sets authorization",
        "request:  removes x-kind",
        "response: removes server, x-powered-by",
    ];
    assert_eq!(lines[..expected.len()], expected);
    assert!(!lines.concat().contains("hunter2"));
}

#[test]
fn it_tells_why_earlier_routes_did_not_take_a_request() {
    let asked = Asked::new(
        "
limits: { own: { fixed_window: { limit: 9, window: 1h } } }
routes:
  - name: second
    path: /v1/**
    query: { mode: live }
    request_has: { X-Api-Version: hidden-2 }
    upstream: http://127.0.0.1:9000
    limits: [own]
  - { name: posted, path: /v1/**, methods: [POST], upstream: \"http://127.0.0.1:9000\", limits: [own] }
  - { name: elsewhere, path: /v2, upstream: \"http://127.0.0.1:9000\", limits: [own] }
  - { name: rest, path: /v1/orders, query: { mode: test }, upstream: \"http://127.0.0.1:9000\", limits: [own] }
",
    );
    let version = ["-H", "X-Api-Version: hidden-2"];
    let told = |arguments: &[&str]| {
        let lines = asked.explain(arguments);
        assert!(!lines.concat().contains("hidden-2"), "{lines:?}");
        let lines = lines.into_iter().filter(|line| {
            ["route:", "passed:", "takes:"]
                .iter()
                .any(|word| line.starts_with(word))
        });
        lines.collect::<Vec<_>>()
    };
    let live = [&["GET", "/v1/orders?mode=live"][..], &version].concat();
    assert_eq!(
        told(&live),
        [
            "route:    second",
            "takes:    requests with mode=live in the query, one value of x-api-version",
        ]
    );
    assert_eq!(
        told(&["GET", "/v1/orders?mode=test"]),
        [
            "route:    rest",
            "takes:    requests with mode=test in the query",
            "passed:   second, for the query has no mode=live",
            "passed:   second, for there is no x-api-version",
            "passed:   posted, which serves POST",
        ]
    );
    let other = ["GET", "/v1/orders?mode=live", "-H", "X-Api-Version: 3"];
    assert_eq!(
        told(&other),
        [
            "route:    none; answered 405 Method Not Allowed",
            "passed:   second, for x-api-version has another value",
            "passed:   posted, which serves POST",
            "passed:   rest, for the query has no mode=test",
        ]
    );
    let twice = [&["GET", "/v1/orders?mode=live&mode=a"][..], &version].concat();
    assert_eq!(
        told(&twice)[..2],
        [
            "route:    none; answered 400 Bad Request",
            "passed:   second, for the query repeats mode",
        ]
    );
}
