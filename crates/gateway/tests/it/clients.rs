//! Whom a limit counts for: clients do not spend each other's budgets, and nobody gets a second one.

use tidegate_testkit::Client;

use crate::kit::{Bench, get, on_both_stores, send};

/// The SHA-256 of "alpha-key" and of "beta-key".
const ALPHA: &str = "677509799af78b2efa2f2af71d0f906e0a0c50c048efd3b515625f788e92b99a";
const BETA: &str = "7a3d637bc601f7000cc2c33141c8c8a7554e02e319fa8b293a0c88c613b77620";

/// One request passes; the next from whoever is the same is refused.
async fn once(store: &str, head: &str, per: &str) -> Bench {
    Bench::start(&format!(
        "
{store}
{head}
limits:
  once: {{ fixed_window: {{ limit: 1, window: 31d }}, per: {per} }}
routes:
  - {{ name: one, path: /one, upstream: UPSTREAM, limits: [once] }}
  - {{ name: two, path: /two, upstream: UPSTREAM, limits: [once] }}
"
    ))
    .await
}

fn from(bench: &Bench, last: u8) -> Client {
    Client::new(bench.gateway.address).from_ip([127, 0, 0, last])
}

async fn api_keys(store: &str) {
    let head = format!(
        "
clients:
  - api_key:
      keys:
        - {{ name: alpha, hash: sha256:{ALPHA} }}
        - {{ name: beta, hash: sha256:{BETA} }}
  - ip: {{}}
"
    );
    let bench = once(store, &head, "[client]").await;
    let (here, there) = (from(&bench, 1), from(&bench, 2));
    let (alpha, beta) = (("x-api-key", "alpha-key"), ("x-api-key", "beta-key"));
    assert_eq!(get(&here, "/one", &[alpha]).await, 200);
    assert_eq!(get(&here, "/one", &[beta]).await, 200);
    assert_eq!(get(&here, "/one", &[]).await, 200);
    // The key is the client, wherever it comes from and whatever it asks for.
    assert_eq!(get(&there, "/two", &[alpha]).await, 429);
    assert_eq!(get(&there, "/two", &[beta]).await, 429);
    // Made-up keys are the address, whose budget is spent.
    for made_up in ["gamma-key", "alpha", "", "alpha-key2"] {
        assert_eq!(
            get(&here, "/one", &[("x-api-key", made_up)]).await,
            429,
            "{made_up:?}"
        );
    }
    // Nobody can say whose request two keys make.
    assert_eq!(get(&here, "/one", &[alpha, beta]).await, 400);
    assert_eq!(
        get(&there, "/one", &[("x-api-key", "gamma-key")]).await,
        200
    );
    bench.stop().await;
}

#[tokio::test]
async fn two_api_keys_are_two_clients() {
    on_both_stores(api_keys).await;
}

async fn users(store: &str) {
    let head = "clients: [{ user_id: {} }]\ntrusted_proxies: [127.0.0.1]";
    let bench = once(store, head, "[client]").await;
    let (proxy, stranger) = (from(&bench, 1), from(&bench, 2));
    let user = |id| [("x-user-id", id)];
    assert_eq!(get(&proxy, "/one", &user("rider-1")).await, 200);
    assert_eq!(get(&proxy, "/one", &user("rider-2")).await, 200);
    assert_eq!(get(&proxy, "/two", &user("rider-1")).await, 429);
    // Whoever is not trusted is an address, whatever name they give.
    assert_eq!(get(&stranger, "/one", &user("rider-3")).await, 200);
    assert_eq!(get(&stranger, "/one", &user("rider-4")).await, 429);
    assert_eq!(get(&proxy, "/one", &user("rider-4")).await, 200);
    // A user called like an address is not that address.
    assert_eq!(get(&proxy, "/one", &user("127.0.0.2")).await, 200);
    bench.stop().await;
}

#[tokio::test]
async fn two_users_of_a_trusted_proxy_are_two_clients() {
    on_both_stores(users).await;
}

async fn forwarded(store: &str) {
    let bench = once(store, "trusted_proxies: [127.0.0.1]", "[ip]").await;
    let (proxy, stranger) = (from(&bench, 1), from(&bench, 2));
    let by_way_of = |hops| [("x-forwarded-for", hops)];
    assert_eq!(get(&proxy, "/one", &by_way_of("192.0.2.1")).await, 200);
    assert_eq!(get(&proxy, "/one", &by_way_of("192.0.2.2")).await, 200);
    // What stands left of the address that the proxy saw was written by the caller.
    assert_eq!(
        get(&proxy, "/one", &by_way_of("192.0.2.9, 192.0.2.1")).await,
        429
    );
    assert_eq!(get(&proxy, "/one", &by_way_of("192.0.2.2:4711")).await, 429);
    assert_eq!(get(&stranger, "/one", &by_way_of("192.0.2.3")).await, 200);
    assert_eq!(get(&stranger, "/one", &by_way_of("192.0.2.4")).await, 429);
    // An IPv6 client is its network.
    assert_eq!(
        get(&proxy, "/one", &by_way_of("2001:db8:1:2::1")).await,
        200
    );
    assert_eq!(
        get(&proxy, "/one", &by_way_of("2001:db8:1:2:3::4")).await,
        429
    );
    assert_eq!(
        get(&proxy, "/one", &by_way_of("2001:db8:1:3::1")).await,
        200
    );
    bench.stop().await;
}

#[tokio::test]
async fn an_address_is_what_the_trusted_proxy_saw() {
    on_both_stores(forwarded).await;
}

/// Requests by what they are counted per: the last part of the address, method, path and host, and whether another one is admitted.
const COUNTED: [(&str, &str); 9] = [
    // Whatever a source would name, an address is what there is.
    (
        "[client]",
        "1 GET /one a 200, 2 GET /one a 200, 1 GET /two b 429",
    ),
    (
        "[ip]",
        "1 GET /one a 200, 2 GET /one a 200, 1 GET /two b 429",
    ),
    (
        "[api_key]",
        "1 GET /one a 200, 2 GET /one a 200, 1 GET /two b 429",
    ),
    (
        "[user_id]",
        "1 GET /one a 200, 2 GET /one a 200, 1 GET /two b 429",
    ),
    ("[]", "1 GET /one a 200, 1 GET /two a 429, 2 GET /two b 429"),
    (
        "[route]",
        "1 GET /one a 200, 2 GET /one a 429, 2 GET /two a 200",
    ),
    (
        "[client, route]",
        "1 GET /one a 200, 1 GET /one a 429, 1 GET /two a 200, 1 GET /two a 429, 2 GET /one a 200, 2 GET /two a 200",
    ),
    // HEAD is GET.
    (
        "[method]",
        "1 HEAD /one a 200, 1 GET /one a 429, 1 POST /one a 200, 1 POST /two a 429, 1 HEAD /two a 429",
    ),
    (
        "[host]",
        "1 GET /one a.example.com 200, 1 GET /one b.example.com 200, 1 GET /two a.example.com 429, \
         1 GET /two A.Example.COM 429, 1 GET /two a.example.com:8080 429, 1 GET /two a.example.com. 429",
    ),
];

#[tokio::test]
async fn a_limit_counts_per_what_it_says() {
    for (per, requests) in COUNTED {
        on_both_stores(async |store| {
            let bench = once(store, "", per).await;
            for request in requests.split(", ") {
                let words: Vec<_> = request.split(' ').collect();
                let [last, method, path, host, status] = words[..] else {
                    panic!("{request}");
                };
                let client = from(&bench, last.parse().unwrap());
                let method = method.parse().unwrap();
                let answer = send(&client, method, path, &[("host", host)]).await;
                assert_eq!(answer.status.as_str(), status, "{per}: {request}");
            }
            bench.stop().await;
        })
        .await;
    }
}
