//! What an upstream is told of a caller: the hops, and the client in a header of which no client can send its own.

use http::{HeaderMap, HeaderName, Request};
use tidegate_testkit::{Client, RawClient, RawUpstream, body};

use crate::callers::{JWT, ask, at, bearer, last_client, listed};
use crate::kit::{Bench, answer_to, on_both_stores};
use crate::support::TestGateway;

async fn start(store: &str) -> Bench {
    Bench::start(&format!(
        "{store}{}",
        YAML.replace("ALPHA", &listed("alpha"))
    ))
    .await
}

const YAML: &str = "
trusted_proxies: [127.0.0.1]
clients: [{ api_key: { keys: [ALPHA] } }, { user_id: {} }, { ip: {} }]
forward_client: X-Client-Id
limits:
  own: { fixed_window: { limit: 100, window: 31d } }
routes:
  - { path: /**, upstream: UPSTREAM, limits: [own] }
";

async fn names(store: &str) {
    let bench = start(store).await;
    let (proxy, stranger) = (at(&bench, 1), at(&bench, 2));
    let user = ("x-user-id", "rider-7");
    let key = ("x-api-key", "alpha-key");
    let hop = ("x-forwarded-for", "2001:db8:1:2:3::4");
    for (client, headers, name) in [
        (&stranger, &[key][..], "api_key:alpha"),
        (&proxy, &[user], "user_id:rider-7"),
        (&proxy, &[hop], "ip:2001:db8:1:2::"),
        (&proxy, &[hop, user, key], "api_key:alpha"),
        (&stranger, &[hop, user], "ip:127.0.0.2"),
    ] {
        assert_eq!(ask(client, "/", headers).await.status, 200);
        assert_eq!(last_client(&bench), name, "{headers:?}");
        // And its own copy, in every way to write it, from whomever.
        for own in ["X-Client-Id", "x_client_id", "X-Client_Id", "x_client-id"] {
            for (connection, value) in [
                ("keep-alive", "user_id:mallory"),
                ("x-client-id, keep-alive", "mallory"),
                ("keep-alive, X_Client_Id", ""),
            ] {
                let mut headers = headers.to_vec();
                headers.extend([(own, value), (own, "mallory"), ("connection", connection)]);
                assert_eq!(ask(client, "/", &headers).await.status, 200);
                assert_eq!(last_client(&bench), name, "{headers:?}");
                let arrived = bench.upstream.requests().pop().unwrap().headers;
                assert!(!format!("{arrived:?}").contains("mallory"), "{arrived:?}");
            }
        }
    }
    bench.stop().await;
}

#[tokio::test]
async fn the_upstream_is_told_the_client_by_nobody_but_the_gateway() {
    on_both_stores(names).await;
}

#[tokio::test]
async fn a_user_whom_no_header_can_hold_is_nobody_and_adds_no_line() {
    let jwt = format!("{{ jwt: {{ {JWT} }} }}");
    let bench = Bench::start(&YAML.replace("{ api_key: { keys: [ALPHA] } }", &jwt)).await;
    for user in ["a\r\nx-evil: 1", "a\nb", "a\0b"] {
        let bearer = bearer(user);
        let headers = [("authorization", &*bearer), ("x-client-id", "mallory")];
        assert_eq!(ask(&at(&bench, 1), "/", &headers).await.status, 200);
        assert_eq!(last_client(&bench), "ip:127.0.0.1", "{user:?}");
        let arrived = bench.upstream.requests().pop().unwrap();
        assert_eq!(arrived.header("x-evil"), None);
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_clients_own_copy_does_not_come_in_the_trailers_either() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let upstream = RawUpstream::answering(answer);
    let yaml = YAML
        .replace("ALPHA", &listed("alpha"))
        .replace("UPSTREAM", &upstream.url());
    let gateway = TestGateway::start(&yaml).await;
    let names = [
        "x-client-id",
        "x_client_id",
        "x-user-id",
        "x-forwarded-for",
        "x-real-ip",
        "x-api-key",
        "x_api_key",
        "x.api.key",
        "x-rewrite-url",
        "x_original_url",
    ];
    for last in [1, 2] {
        let mut client = RawClient::connect_from([127, 0, 0, last], gateway.address).await;
        let trailers = names.map(|name| format!("{name}: mallory\r\n")).concat();
        let request = format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTrailer: {}, x-kept\r\nTransfer-Encoding: chunked\r\n\r\n\
             2\r\nhi\r\n0\r\n{trailers}x-kept: yes\r\n\r\n",
            names.join(", ")
        );
        assert_eq!(answer_to(&mut client, &request).await.status(), 200);
        // The same over HTTP/2, which needs no announcement.
        let client = Client::h2(gateway.address).from_ip([127, 0, 0, last]);
        let (mut sender, body) = body::channel();
        let request = Request::post("/").header("trailer", names.join(", "));
        let request = request.body(body).unwrap();
        let mallory: HeaderMap = names
            .map(|name| (HeaderName::from_static(name), "mallory".parse().unwrap()))
            .into_iter()
            .collect();
        let sending = async {
            sender.send_data("hi".into()).await.unwrap();
            sender.send_trailers(mallory).await.unwrap();
            drop(sender);
        };
        let (answer, ()) = tokio::join!(client.request(request), sending);
        assert_eq!(answer.status, 200);
    }
    assert_eq!(upstream.requests().len(), 4);
    assert!(upstream.saw("hi"), "the bodies did arrive");
    assert!(!upstream.saw("mallory"), "{:?}", upstream.requests());
    gateway.stop().await;
}

#[tokio::test]
async fn without_forward_client_a_clients_own_header_is_its_own_business() {
    let yaml = YAML
        .replace("ALPHA", &listed("alpha"))
        .replace("forward_client: X-Client-Id", "");
    let bench = Bench::start(&yaml).await;
    ask(&at(&bench, 2), "/", &[("x-client-id", "anything")]).await;
    assert_eq!(last_client(&bench), "anything");
    bench.stop().await;
}

async fn forwarded(store: &str) {
    let yaml = YAML
        .replace("ALPHA", &listed("alpha"))
        .replace("ip: {}", "ip: { from: forwarded }");
    let bench = Bench::start(&format!("{store}{yaml}")).await;
    let told = async |last: u8, lines: &[&str]| {
        let mut headers: Vec<_> = lines.iter().map(|line| ("forwarded", *line)).collect();
        headers.push(("x-forwarded-for", "6.6.6.6"));
        assert_eq!(ask(&at(&bench, last), "/", &headers).await.status, 200);
        let arrival = bench.upstream.requests().pop().unwrap();
        let header = |name| arrival.header(name).unwrap_or_default().to_owned();
        [
            header("x-client-id"),
            header("forwarded"),
            header("x-forwarded-for"),
        ]
    };
    // The last part of the peer's address, the lines of Forwarded, and what the upstream is told: client, Forwarded, X-Forwarded-For.
    let own = "for=127.0.0.1";
    for row in [
        "1 | for=192.0.2.1 | ip:192.0.2.1 | for=192.0.2.1, OWN | 192.0.2.1, 127.0.0.1",
        r#"1 | for="[2001:db8::1]:4711";proto=https;by=10.0.0.1 | ip:2001:db8:: |
           for="[2001:db8::1]:4711";proto=https;by=10.0.0.1, OWN | 2001:db8::1, 127.0.0.1"#,
        "1 | for=6.6.6.6 & For=192.0.2.1, for=127.0.0.1 | ip:192.0.2.1 |
         for=6.6.6.6, For=192.0.2.1, for=127.0.0.1, OWN | 192.0.2.1, 127.0.0.1",
        // What the caller wrote cannot swallow what the proxy saw. What would swallow the hops behind it is not told on.
        r#"1 | for="6.6.6.6, for=192.0.2.1 | ip:192.0.2.1 | for=192.0.2.1, OWN | 192.0.2.1, 127.0.0.1"#,
        // Hidden and missing hops end the walk where it is.
        "1 | for=192.0.2.1, for=_hidden | ip:127.0.0.1 | for=192.0.2.1, for=_hidden, OWN | 127.0.0.1",
        "1 | for=192.0.2.1, for=unknown | ip:127.0.0.1 | for=192.0.2.1, for=unknown, OWN | 127.0.0.1",
        "1 | | ip:127.0.0.1 | OWN | 127.0.0.1",
        "2 | for=192.0.2.1 | ip:127.0.0.2 | for=127.0.0.2 | 127.0.0.2",
        "2 | | ip:127.0.0.2 | for=127.0.0.2 | 127.0.0.2",
    ] {
        let cells: Vec<_> = row
            .split('|')
            .map(|cell| cell.trim().replace("OWN", own))
            .collect();
        let lines = cells[1].split(" & ").filter(|line| !line.is_empty());
        let found = told(cells[0].parse().unwrap(), &lines.collect::<Vec<_>>()).await;
        assert_eq!(found[..], cells[2..], "{row}");
    }
    bench.stop().await;
}

#[tokio::test]
async fn forwarded_is_read_from_its_right_end_and_told_on_with_our_hop() {
    on_both_stores(forwarded).await;
}
