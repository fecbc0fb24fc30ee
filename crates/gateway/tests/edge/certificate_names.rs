//! Clients that their certificates name.

use std::sync::Arc;

use http::Method;
use tidegate_testkit::{Certificate, Client, RedisServer, Upstream};

use crate::bench::{HTTP1, Papers};
use crate::support::TestGateway;
use crate::support::asking::send;

/// A gateway whose listener believes the authority, and whose clients have these sources before their address.
async fn gateway(papers: &Papers, upstream: &Upstream, head: &str, sources: &str) -> TestGateway {
    let more = format!(
        "client_ca: \"{}\", client_cert: optional",
        papers.path("ca.pem")
    );
    let yaml = format!(
        "
{head}
forward_client: X-Client-Id
clients: [{sources}, {{ ip: {{}} }}]
limits:
  own: {{ fixed_window: {{ limit: 1000, window: 31d }} }}
  shown: {{ fixed_window: {{ limit: 100, window: 31d }}, per: [client_cert] }}
routes:
  - {{ path: /own, upstream: UPSTREAM, limits: [own] }}
  - {{ path: /shown, upstream: UPSTREAM, limits: [shown] }}
"
    );
    papers.gateway(upstream.url(), &more, &yaml).await
}

/// A client that shows this certificate, or none.
fn client(papers: &Papers, gateway: &TestGateway, shown: Option<&Certificate>) -> Client {
    let config = match shown {
        Some(shown) => papers.authority.client_showing(shown, &HTTP1),
        None => papers.authority.client(&HTTP1),
    };
    Client::new(gateway.address)
        .secured(config, "localhost")
        .knows("www-authenticate")
}

/// What is left after a request that is admitted, and whom the upstream was told to answer.
async fn left(client: &Client, upstream: &Upstream, path: &str) -> (u64, String) {
    let answer = send(client, Method::GET, path, &[]).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let left = answer.header("x-ratelimit-remaining").unwrap();
    let arrival = upstream.requests().pop().unwrap();
    let told = arrival.header("x-client-id").unwrap_or_default();
    (left.parse().unwrap(), told.to_owned())
}

#[tokio::test]
async fn a_certificate_names_its_client_by_what_is_configured() {
    let (papers, upstream) = (Papers::new(), Upstream::ok());
    let uri = "spiffe://example.org/billing";
    let dns = ["Billing.Internal", "billing-2.internal"];
    let full = papers.authority.issue_client("Billing", &dns, &[uri]);
    let bare = papers.authority.issue_client("Reports", &[], &[]);
    for (name, of_full, of_bare) in [
        ("san_dns", Some("client_cert:billing.internal"), None),
        (
            "san_uri",
            Some("client_cert:spiffe://example.org/billing"),
            None,
        ),
        (
            "cn",
            Some("client_cert:Billing"),
            Some("client_cert:Reports"),
        ),
    ] {
        let source = format!("{{ client_cert: {{ name: {name} }} }}");
        let gateway = gateway(&papers, &upstream, "", &source).await;
        for (shown, named) in [(&full, of_full), (&bare, of_bare)] {
            let client = client(&papers, &gateway, Some(shown));
            let (_, told) = left(&client, &upstream, "/own").await;
            assert_eq!(told, named.unwrap_or("ip:127.0.0.1"), "{name}");
        }
    }
    // Without a word it is the DNS name; a fingerprint is each certificate's own.
    let by_default = gateway(&papers, &upstream, "", "{ client_cert: {} }").await;
    let of_full = client(&papers, &by_default, Some(&full));
    let (_, told) = left(&of_full, &upstream, "/own").await;
    assert_eq!(told, "client_cert:billing.internal");
    let source = "{ client_cert: { name: fingerprint } }";
    let by_fingerprint = gateway(&papers, &upstream, "", source).await;
    let mut told = Vec::new();
    for shown in [&full, &bare] {
        let client = client(&papers, &by_fingerprint, Some(shown));
        told.push(left(&client, &upstream, "/own").await.1);
    }
    assert_ne!(told[0], told[1]);
    for told in told {
        let digits = told.strip_prefix("client_cert:").unwrap();
        assert!(digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}

async fn counted(store: &str) {
    let (papers, upstream) = (Papers::new(), Upstream::ok());
    let gateway = gateway(&papers, &upstream, store, "{ client_cert: {} }").await;
    let issue = |name| papers.authority.issue_client("any", &[name], &[]);
    let (billing, renewed, reports) = (issue("billing"), issue("billing"), issue("reports"));
    let of = |shown| client(&papers, &gateway, shown);
    for path in ["/own", "/shown"] {
        let most = if path == "/own" { 1000 } else { 100 };
        let left = async |shown| left(&of(shown), &upstream, path).await;
        let named = |left, name: &str| (left, format!("client_cert:{name}"));
        assert_eq!(left(Some(&billing)).await, named(most - 1, "billing"));
        // A renewed certificate is the same client on another connection.
        assert_eq!(left(Some(&renewed)).await, named(most - 2, "billing"));
        assert_eq!(left(Some(&reports)).await, named(most - 1, "reports"));
        let nobody = (most - 1, "ip:127.0.0.1".to_owned());
        assert_eq!(left(None).await, nobody);
    }
    gateway.stop().await;
}

/// Nobody is called by a name that others wrote into a header.
#[tokio::test]
async fn a_header_is_no_certificate() {
    let (papers, upstream) = (Papers::new(), Upstream::ok());
    let trust = "trusted_proxies: [127.0.0.1]";
    let gateway = gateway(&papers, &upstream, trust, "{ client_cert: { name: cn } }").await;
    let client = client(&papers, &gateway, None);
    let headers = [
        ("x-client-id", "client_cert:billing"),
        ("x-forwarded-client-cert", "Subject=\"CN=billing\""),
        ("client-cert", ":MIIB:"),
    ];
    assert_eq!(
        send(&client, Method::GET, "/own", &headers).await.status,
        200
    );
    let arrival = upstream.requests().pop().unwrap();
    assert_eq!(arrival.header("x-client-id"), Some("ip:127.0.0.1"));
    gateway.stop().await;
}

/// The order of sources says who counts, and a key that is refused leaves nothing of the certificate.
#[tokio::test]
async fn a_certificate_stands_beside_other_sources() {
    let (papers, upstream) = (Papers::new(), Upstream::ok());
    let key = "{ api_key: { unknown: reject, keys: [{ name: acme, hash: \"sha256:c48a01f49fd0f2cc404bc3cbbc80e91457a3d41bb429a695243de4c61794155c\" }] } }";
    let sources = format!("{key}, {{ client_cert: {{ name: cn }} }}");
    let gateway = gateway(&papers, &upstream, "", &sources).await;
    let shown = papers.authority.issue_client("billing", &[], &[]);
    let client = Arc::new(client(&papers, &gateway, Some(&shown)));
    let told = async |headers: &[(&str, &str)]| {
        let status = send(&client, Method::GET, "/shown", headers)
            .await
            .status
            .as_u16();
        let arrival = upstream.requests().pop().unwrap();
        (
            status,
            arrival.header("x-client-id").unwrap_or_default().to_owned(),
        )
    };
    let named = |name: &str| (200, name.to_owned());
    assert_eq!(told(&[]).await, named("client_cert:billing"));
    let acme = told(&[("x-api-key", "demo-key")]).await;
    assert_eq!(acme, named("api_key:acme"));
    let answer = send(&client, Method::GET, "/shown", &[]).await;
    let left = answer.header("x-ratelimit-remaining");
    assert_eq!(
        left,
        Some("97"),
        "per: [client_cert] counts the certificate, whatever the key"
    );
    assert_eq!(
        send(&client, Method::GET, "/shown", &[("x-api-key", "made-up")])
            .await
            .status,
        401
    );
    gateway.stop().await;
}

/// Lists know clients by their certificates. Of a certificate and a key the first source names the client, and either denies.
async fn of_lists(store: &str) {
    let (papers, upstream) = (Papers::new(), Upstream::ok());
    let more = format!(
        "client_ca: \"{}\", client_cert: optional",
        papers.path("ca.pem")
    );
    let keys = [
        "{ name: demo, hash: \"sha256:c48a01f49fd0f2cc404bc3cbbc80e91457a3d41bb429a695243de4c61794155c\" }",
        "{ name: monitor, hash: \"sha256:762c08fc17a1cc5f00d248f8b50f2f2f4d17ff2934ac31e64deacb3f5bb3f2ec\" }",
    ];
    let by_certificate = "client_cert: { name: san_dns }".to_owned();
    let by_key = format!("api_key: {{ keys: [{}] }}", keys.join(", "));
    for certificate_first in [true, false] {
        let mut sources = [&by_certificate, &by_key];
        if !certificate_first {
            sources.reverse();
        }
        let [first, second] = sources;
        let yaml = format!(
            "
{store}
clients:
  - {first}
  - {second}
  - ip: {{}}
limits:
  own: {{ fixed_window: {{ limit: 10, window: 31d }} }}
always: [own]
plans:
  gold: {{ members: [\"client_cert:gold\"], own: {{ fixed_window: {{ limit: 30, window: 31d }} }} }}
  silver: {{ members: [\"api_key:demo\"], own: {{ fixed_window: {{ limit: 20, window: 31d }} }} }}
exempt: [\"client_cert:probe\", \"api_key:monitor\"]
deny: [\"client_cert:Lost\"]
routes:
  - {{ path: /verified, upstream: UPSTREAM, require: verified }}
  - {{ path: /**, upstream: UPSTREAM }}
"
        );
        let gateway = papers.gateway(upstream.url(), &more, &yaml).await;
        // The case, the path, the certificate's name, the key; and the limit, where the certificate comes first and where the key does.
        for row in [
            "denied | / | lost | - | 403 | 403",
            "denied, and an exempt key | / | lost | old-key | 403 | 403",
            "exempt | / | probe | - | exempt | exempt",
            "exempt, and a key | / | probe | demo-key | exempt | 20",
            "an exempt key | / | billing | old-key | 10 | exempt",
            "a member | / | gold | - | 30 | 30",
            "two members | / | gold | demo-key | 30 | 20",
            "a key with a plan | / | reports | demo-key | 10 | 20",
            "verified | /verified | shop | - | 10 | 10",
        ] {
            let cells: Vec<_> = row.split(" | ").collect();
            let (path, name, key) = (cells[1], cells[2], ("x-api-key", cells[3]));
            let key = Some(key).filter(|(_, key)| *key != "-");
            let shown = papers.authority.issue_client("any", &[name], &[]);
            let client = client(&papers, &gateway, Some(&shown));
            let answer = send(&client, Method::GET, path, key.as_slice()).await;
            let found = match answer.status.as_u16() {
                200 => answer
                    .header("x-ratelimit-limit")
                    .unwrap_or("exempt")
                    .to_owned(),
                other => other.to_string(),
            };
            let expected = cells[if certificate_first { 4 } else { 5 }];
            assert_eq!(found, expected, "{row}, first: {first}");
        }
        let nobody = client(&papers, &gateway, None);
        assert_eq!(
            send(&nobody, Method::GET, "/verified", &[]).await.status,
            401
        );
        gateway.stop().await;
    }
}

/// Runs a case on the memory store and on a Redis of its own.
async fn on_both_stores(case: impl AsyncFn(&str)) {
    case("").await;
    let redis = RedisServer::start().await;
    let url = redis.url();
    case(&format!(
        "store: {{ redis: {{ url: \"{url}\", timeout: 5s, on_failure: closed }} }}"
    ))
    .await;
}

#[tokio::test]
async fn each_name_has_a_budget() {
    on_both_stores(counted).await;
}

#[tokio::test]
async fn lists_name_clients_by_their_certificates() {
    on_both_stores(of_lists).await;
}
