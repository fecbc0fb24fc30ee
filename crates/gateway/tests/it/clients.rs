//! Whom a limit counts for: clients do not spend each other's budgets, and nobody gets a second one.

use http::Method;
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

async fn addresses(store: &str) {
    let kinds = ["client", "ip", "api_key", "user_id"];
    let limit = |per| {
        format!("  by-{per}: {{ fixed_window: {{ limit: 1, window: 31d }}, per: [{per}] }}\n")
    };
    let route = |per| format!("  - {{ path: /{per}, upstream: UPSTREAM, limits: [by-{per}] }}\n");
    let (limits, routes) = (kinds.map(limit).concat(), kinds.map(route).concat());
    let bench = Bench::start(&format!("{store}limits:\n{limits}routes:\n{routes}")).await;
    for per in kinds {
        let path = format!("/{per}");
        assert_eq!(from(&bench, 1).get(&path).await.status, 200, "{per}");
        assert_eq!(from(&bench, 2).get(&path).await.status, 200, "{per}");
        assert_eq!(from(&bench, 1).get(&path).await.status, 429, "{per}");
    }
    bench.stop().await;
}

#[tokio::test]
async fn two_addresses_are_two_clients() {
    on_both_stores(addresses).await;
}

async fn routes(store: &str) {
    let bench = once(store, "", "[route]").await;
    let (one, two) = (from(&bench, 1), from(&bench, 2));
    assert_eq!(one.get("/one").await.status, 200);
    assert_eq!(
        two.get("/one").await.status,
        429,
        "one budget for all clients"
    );
    assert_eq!(two.get("/two").await.status, 200, "and another per route");
    bench.stop().await;
}

#[tokio::test]
async fn a_limit_per_route() {
    on_both_stores(routes).await;
}

async fn clients_and_routes(store: &str) {
    let bench = once(store, "", "[client, route]").await;
    for client in [from(&bench, 1), from(&bench, 2)] {
        for path in ["/one", "/two"] {
            assert_eq!(client.get(path).await.status, 200);
            assert_eq!(client.get(path).await.status, 429);
        }
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_limit_per_client_and_route() {
    on_both_stores(clients_and_routes).await;
}

async fn everybody(store: &str) {
    let bench = once(store, "", "[]").await;
    assert_eq!(from(&bench, 1).get("/one").await.status, 200);
    assert_eq!(from(&bench, 1).get("/two").await.status, 429);
    assert_eq!(from(&bench, 2).get("/two").await.status, 429);
    bench.stop().await;
}

#[tokio::test]
async fn a_limit_for_all_together() {
    on_both_stores(everybody).await;
}

async fn methods(store: &str) {
    let bench = once(store, "", "[method]").await;
    let client = &bench.client;
    assert_eq!(send(client, Method::HEAD, "/one", &[]).await.status, 200);
    assert_eq!(send(client, Method::GET, "/one", &[]).await.status, 429);
    assert_eq!(send(client, Method::POST, "/one", &[]).await.status, 200);
    assert_eq!(send(client, Method::POST, "/two", &[]).await.status, 429);
    assert_eq!(send(client, Method::HEAD, "/two", &[]).await.status, 429);
    bench.stop().await;
}

#[tokio::test]
async fn a_limit_per_method_takes_head_for_get() {
    on_both_stores(methods).await;
}

async fn hosts(store: &str) {
    let bench = once(store, "", "[host]").await;
    let client = &bench.client;
    assert_eq!(get(client, "/one", &[("host", "a.example.com")]).await, 200);
    assert_eq!(get(client, "/one", &[("host", "b.example.com")]).await, 200);
    for same in [
        "a.example.com",
        "A.Example.COM",
        "a.example.com:8080",
        "a.example.com.",
    ] {
        assert_eq!(get(client, "/two", &[("host", same)]).await, 429, "{same}");
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_limit_per_host_knows_it_in_every_spelling() {
    on_both_stores(hosts).await;
}
