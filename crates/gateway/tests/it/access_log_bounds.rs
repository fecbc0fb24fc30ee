//! What clients and proxies may put into the access log: texts are cut, whoever sends them, and addresses are those that
//! limits count.

use serde_json::{Value, json};
use tidegate_testkit::{Client, RawClient, Upstream};

use crate::access_log::{access_lines, lines};
use crate::kit::{LONG, answer_to, get, get_each, sample, until};
use crate::support::GatewayProcess;

/// More than the longest line of the access log.
const LONGEST_LINE: usize = 4 * 1024;

#[tokio::test]
async fn a_long_name_is_cut() {
    let upstream = Upstream::ok();
    let gateway = GatewayProcess::start(&format!(
        "
trusted_proxies: [127.0.0.1]
clients: [{{ user_id: {{}} }}]
routes: [{{ path: /**, upstream: \"{}\" }}]
",
        upstream.url()
    ))
    .await;
    let id = "x".repeat(1_000);
    get(&Client::new(gateway.address), "/", &[("x-user-id", &id)]).await;
    let line = lines(&gateway, 1).await.remove(0);
    let client = line["client"].as_str().unwrap();
    assert!(
        client.starts_with("user_id:xxx") && client.ends_with('…'),
        "{client}"
    );
    assert_eq!(client.chars().count(), 129);
}

/// Of requests that are forwarded, refused by a limit, and refused because they are wrong.
#[tokio::test]
async fn a_long_target_method_or_id_is_cut_whatever_becomes_of_the_request() {
    let upstream = Upstream::ok();
    let gateway = GatewayProcess::start(&format!(
        "
trusted_proxies: [127.0.0.1]
limits: {{ one: {{ fixed_window: {{ limit: 1, window: 31d }} }} }}
routes: [{{ name: api, path: /api/**, upstream: \"{}\", limits: [one] }}]
",
        upstream.url()
    ))
    .await;
    let (long, word) = ("x".repeat(8_000), "y".repeat(2_000));
    // More than the gateway takes.
    let longer = "x".repeat(20_000);
    for (method, path) in [
        ("GET", format!("/api/{long}")),
        ("GET", format!("/api/{long}")),
        ("GET", format!("/elsewhere/{longer}")),
        (&word, format!("/api/{long}%zz")),
    ] {
        let head = format!("{method} {path} HTTP/1.1\r\nhost: a\r\nx-request-id: {word}\r\n\r\n");
        let mut client = RawClient::connect(gateway.address).await;
        answer_to(&mut client, head).await;
    }
    let lines = lines(&gateway, 4).await;
    let outcomes: Vec<_> = lines.iter().map(|line| &line["outcome"]).collect();
    assert_eq!(outcomes, ["forwarded", "limited", "rejected", "rejected"]);
    let cut = |line: &Value, name: &str| {
        let text = line[name].as_str().unwrap();
        assert!(text.ends_with('…'), "{name}: {text}");
        text.len() - '…'.len_utf8()
    };
    for line in &lines {
        assert_eq!((cut(line, "path"), cut(line, "id")), (1_024, 128));
        assert!(line.to_string().len() < LONGEST_LINE, "{line}");
    }
    assert_eq!(cut(&lines[3], "method"), 128);
    assert_eq!(upstream.requests()[0].header("x-request-id"), Some(&*word));
}

/// The peer is whom to block; the client's address is what limits per `ip` count.
#[tokio::test]
async fn a_line_says_who_connected_and_for_whom() {
    let upstream = Upstream::ok();
    let gateway = GatewayProcess::start(&format!(
        "
trusted_proxies: [127.0.0.1]
limits: {{ it: {{ fixed_window: {{ limit: 9, window: 31d }}, per: [ip] }} }}
routes: [{{ path: /api, upstream: \"{}\", limits: [it] }}]
",
        upstream.url()
    ))
    .await;
    let proxy = Client::new(gateway.address);
    let stranger = Client::new(gateway.address).from_ip([127, 0, 0, 2]);
    let forwarded = [("x-forwarded-for", "198.51.100.1, 2001:db8:1:2:3::7")];
    get(&proxy, "/api", &forwarded).await;
    get(&proxy, "/nowhere", &forwarded).await;
    get(&stranger, "/api", &forwarded).await;
    get(
        &proxy,
        "/api",
        &[("x-forwarded-for", "::ffff:198.51.100.1")],
    )
    .await;
    let lines = lines(&gateway, 4).await;
    let told: Vec<Value> = lines
        .iter()
        .map(|line| json!([line["peer"], line["client_ip"], line["client"]]))
        .collect();
    let of_proxy = json!(["127.0.0.1", "2001:db8:1:2:3::7", "ip:2001:db8:1:2::"]);
    assert_eq!(
        told,
        [
            of_proxy.clone(),
            of_proxy,
            json!(["127.0.0.2", "127.0.0.2", "ip:127.0.0.2"]),
            json!(["127.0.0.1", "198.51.100.1", "ip:198.51.100.1"]),
        ]
    );
}

/// A request that was forwarded has its line beside any number of refusals.
#[tokio::test]
async fn refusals_without_a_line_are_counted() {
    const REFUSED: usize = 50;
    let upstream = Upstream::ok();
    let yaml = format!(
        "routes: [{{ path: /api, upstream: \"{}\" }}]\n",
        upstream.url()
    );
    let settings = "level: info, access: { max_refusals_per_second: 1 }";
    let gateway = GatewayProcess::start_with("127.0.0.1:0", settings, &yaml).await;
    let client = Client::new(gateway.address);
    get_each(&client, REFUSED, "/nowhere", &[], 404).await;
    assert_eq!(get(&client, "/api", &[]).await, 200);
    let forwarded = "\"outcome\":\"forwarded\"";
    gateway.process.wait_for_line(forwarded, LONG).await;
    let name = "tidegate_access_log_unwritten_refusals_total";
    let unwritten = async || sample(gateway.admin, name).await;
    let written = || {
        let lines = access_lines(&gateway).into_iter();
        lines.filter(|line| line["outcome"] == "rejected").count() as u64
    };
    until("each refusal is written or counted", async || {
        written() + unwritten().await == REFUSED as u64
    })
    .await;
    assert!(written() >= 1 && unwritten().await >= 1);
}
