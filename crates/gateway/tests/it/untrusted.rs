//! Peers that send the headers of proxies and are not trusted: shown once, with the line of the configuration that is missing.

use http::Method;
use tidegate_status::document::UntrustedProxy;
use tidegate_testkit::{Authority, Client, RawClient, Upstream};

use crate::kit::{Bench, LONG, answer_to, get, sample, send};
use crate::status::{browser, status, when};
use crate::support::commands::checked_running;
use crate::support::{GatewayProcess, TestGateway};

const ROUTES: &str = "
limits:
  few: { fixed_window: { limit: 1, window: 31d } }
routes:
  - { path: /**, upstream: UPSTREAM, limits: [few] }
";
const FORWARDED_FOR: (&str, &str) = ("x-forwarded-for", "203.0.113.7");

fn connections(header: &str) -> String {
    format!("tidegate_untrusted_proxy_connections_total{{header=\"{header}\"}}")
}

async fn listed(gateway: &TestGateway) -> Vec<UntrustedProxy> {
    let before = status(gateway.admin).await.tick;
    when(gateway.admin, "a sample", |it| it.tick > before).await;
    status(gateway.admin).await.untrusted_proxies
}

#[tokio::test]
async fn a_network_is_listed_once_until_it_is_trusted() {
    let bench = Bench::start(ROUTES).await;
    assert_eq!(get(&bench.client, "/", &[]).await, 200);
    assert_eq!(listed(&bench.gateway).await, []);
    // Refused requests count as well, and each connection once.
    for last in [2, 2, 3] {
        let client = Client::new(bench.gateway.address).from_ip([127, 0, 0, last]);
        for _ in 0..3 {
            send(&client, Method::GET, "/", &[FORWARDED_FOR]).await;
        }
    }
    let admin = bench.gateway.admin;
    assert_eq!(sample(admin, &connections("x_forwarded_for")).await, 3);
    assert_eq!(sample(admin, &connections("forwarded")).await, 0);
    let [proxy] = &listed(&bench.gateway).await[..] else {
        panic!("one network");
    };
    assert_eq!(proxy.network, "127.0.0.0/24");
    assert_eq!((&*proxy.address, proxy.connections), ("127.0.0.3", 3));
    assert_eq!(proxy.header, "X-Forwarded-For");
    let line = "`trusted_proxies: [127.0.0.3]`";
    assert!(proxy.text.contains(line), "{}", proxy.text);
    // Without script, too.
    let html = browser(admin).get("/").await;
    assert!(html.text().contains("trusted_proxies: [127.0.0.3]"));
    let routes = ROUTES.replace("UPSTREAM", &bench.upstream.url());
    bench
        .gateway
        .reload(&format!("trusted_proxies: [127.0.0.0/8]\n{routes}"))
        .await;
    assert_eq!(listed(&bench.gateway).await, []);
    bench.stop().await;
}

#[tokio::test]
async fn the_header_that_is_not_read_is_named_with_its_source() {
    let bench = Bench::start(&format!("trusted_proxies: [127.0.0.1]\n{ROUTES}")).await;
    // A trusted proxy is none of these.
    get(
        &bench.client,
        "/",
        &[FORWARDED_FOR, ("forwarded", "for=203.0.113.7")],
    )
    .await;
    assert_eq!(listed(&bench.gateway).await, []);
    let stranger = Client::fresh(bench.gateway.address).from_ip([127, 0, 0, 2]);
    get(&stranger, "/", &[("forwarded", "for=203.0.113.7")]).await;
    let [proxy] = &listed(&bench.gateway).await[..] else {
        panic!("one network");
    };
    let lines = "127.0.0.2 in `trusted_proxies` and `ip: { from: forwarded }` in `clients`";
    assert!(proxy.text.contains(lines), "{}", proxy.text);
    bench.stop().await;
}

#[tokio::test]
async fn a_trusted_proxy_that_names_no_client_is_listed_once_a_limit_refuses_it() {
    for (from, sent) in [
        ("x_forwarded_for", FORWARDED_FOR),
        ("forwarded", ("forwarded", "for=203.0.113.7")),
    ] {
        let clients =
            format!("trusted_proxies: [127.0.0.1]\nclients: [{{ ip: {{ from: {from} }} }}]\n");
        let bench = Bench::start(&format!("{clients}{ROUTES}")).await;
        let (client, admin) = (&bench.client, bench.gateway.admin);
        // A named client is refused, and a request like a health check is admitted.
        assert_eq!(get(client, "/", &[sent]).await, 200);
        assert_eq!(get(client, "/", &[sent]).await, 429);
        assert_eq!(get(client, "/", &[]).await, 200);
        assert_eq!(listed(&bench.gateway).await, []);
        assert_eq!(get(client, "/", &[]).await, 429);
        assert_eq!(get(client, "/", &[]).await, 429);
        let [proxy] = &listed(&bench.gateway).await[..] else {
            panic!("one network");
        };
        assert_eq!((&*proxy.header, proxy.connections), ("missing", 1));
        let remedy = format!(
            "let it set {}",
            if from == "forwarded" {
                "Forwarded"
            } else {
                "X-Forwarded-For"
            }
        );
        assert!(proxy.text.contains(&remedy), "{}", proxy.text);
        assert_eq!(sample(admin, &connections("missing")).await, 1);
        bench.stop().await;
    }
}

/// A limit that drops refuses as well, without an answer.
#[tokio::test]
async fn a_trusted_proxy_that_is_dropped_is_listed() {
    let routes = ROUTES.replace("31d }", "31d }, action: drop");
    let bench = Bench::start(&format!("trusted_proxies: [127.0.0.1]\n{routes}")).await;
    assert_eq!(get(&bench.client, "/", &[]).await, 200);
    let mut proxy = RawClient::connect_from([127, 0, 0, 1], bench.gateway.address).await;
    _ = proxy.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    proxy.read_to_close(LONG).await;
    let listed = listed(&bench.gateway).await;
    assert!(listed.iter().any(|it| it.header == "missing"), "{listed:?}");
    bench.stop().await;
}

/// With `from: proxy_protocol` headers of requests are read of nobody, and clients may send what they like.
#[tokio::test]
async fn headers_that_nobody_reads_are_not_reported() {
    let clients = "trusted_proxies: [127.0.0.1]\nclients: [{ ip: { from: proxy_protocol } }]\n";
    let bench = Bench::start(&format!("{clients}{ROUTES}")).await;
    let stranger = Client::fresh(bench.gateway.address).from_ip([127, 0, 0, 2]);
    assert_eq!(get(&stranger, "/", &[FORWARDED_FOR]).await, 200);
    let mut proxy = RawClient::connect_from([127, 0, 0, 1], bench.gateway.address).await;
    let start = "PROXY TCP4 192.0.2.1 198.51.100.1 4711 443\r\n";
    let request = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.7\r\n\r\n";
    assert_eq!(
        answer_to(&mut proxy, format!("{start}{request}"))
            .await
            .status(),
        200
    );
    assert_eq!(listed(&bench.gateway).await, []);
    bench.stop().await;
}

#[tokio::test]
async fn a_proxy_protocol_header_is_reported_with_and_without_tls() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = Authority::new().issue(&["localhost"]);
    let (cert, key) = certificate.write(folder.path(), "own");
    let (cert, key) = (cert.display(), key.display());
    let tls = format!("{{ address: 127.0.0.1:0, tls: {{ cert: \"{cert}\", key: \"{key}\" }} }}");
    let upstream = Upstream::ok();
    let routes = ROUTES.replace("UPSTREAM", &upstream.url());
    let listen = format!("[127.0.0.1:0, {tls}]");
    let gateway = TestGateway::start_listening(&listen, &routes).await;
    let version_2 = &b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"[..];
    let version_1 = b"PROXY TCP4 192.0.2.1 198.51.100.1 4711 443\r\n";
    for address in &gateway.addresses {
        for start in [version_1, version_2] {
            let mut client = RawClient::connect_from([127, 0, 0, 2], *address).await;
            _ = client.send(start).await;
            client.read_to_close(LONG).await;
        }
    }
    assert_eq!(
        sample(gateway.admin, &connections("proxy_protocol")).await,
        4
    );
    let [proxy] = &listed(&gateway).await[..] else {
        panic!("one network");
    };
    assert_eq!(proxy.header, "PROXY");
    let lines = "`trusted_proxies: [127.0.0.2]` and `ip: { from: proxy_protocol }` in `clients`";
    assert!(proxy.text.contains(lines), "{}", proxy.text);
    gateway.stop().await;
}

#[tokio::test]
async fn the_log_has_one_line_and_check_a_warning() {
    let upstream = Upstream::ok();
    let routes = ROUTES.replace("UPSTREAM", &upstream.url());
    let gateway = GatewayProcess::start(&routes).await;
    for last in [2, 3] {
        let client = Client::fresh(gateway.address).from_ip([127, 0, 0, last]);
        get(&client, "/", &[FORWARDED_FOR]).await;
        let line = gateway
            .process
            .wait_for_line("no trusted proxy", LONG)
            .await;
        assert!(line.contains("WARN"), "{line}");
        assert!(line.contains("\"network\":\"127.0.0.0/24\""), "{line}");
        assert!(line.contains("`trusted_proxies: [127.0.0.2]`"), "{line}");
    }
    // Another header in the log shows that all samples before it were taken.
    let client = Client::fresh(gateway.address).from_ip([127, 0, 1, 1]);
    get(&client, "/", &[FORWARDED_FOR]).await;
    let last = "\"network\":\"127.0.1.0/24\"";
    gateway.process.wait_for_line(last, LONG).await;
    let output = gateway.process.output();
    let lines = output.iter().filter(|it| it.contains("no trusted proxy"));
    assert_eq!(lines.count(), 2, "{output:?}");

    let file = gateway.file().with_file_name("next.yaml");
    let head = format!(
        "listen: 127.0.0.1:0\nadmin: {}\nlog: {{ format: json }}\n",
        gateway.admin
    );
    std::fs::write(&file, format!("{head}{routes}")).unwrap();
    let text = checked_running(&file);
    assert!(
        text.contains("warning: 127.0.0.0/24 sends X-Forwarded-For"),
        "{text}"
    );
    let trusted = "trusted_proxies: [127.0.0.0/16]\n";
    std::fs::write(&file, format!("{head}{trusted}{routes}")).unwrap();
    let text = checked_running(&file);
    assert!(
        text.contains("would start") && !text.contains("sends X-"),
        "{text}"
    );
}
