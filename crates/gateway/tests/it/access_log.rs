//! The access log: one line per request, whatever became of it, and none lost at the end.

use std::collections::HashSet;

use http::{Method, Request, Response};
use serde_json::{Value, json};
use tidegate_testkit::{Client, Process, RawClient, RedisServer, Upstream, body};

use crate::kit::{LONG, exact, get, sample, send, send_get, until};
use crate::status::browser;
use crate::support::GatewayProcess;

/// The access lines so far, once there are `count` of them.
pub(crate) async fn lines(gateway: &GatewayProcess, count: usize) -> Vec<Value> {
    let process = &gateway.process;
    process
        .wait_for_nth_line("\"target\":\"access\"", count, LONG)
        .await;
    access_lines(gateway)
}

pub(crate) fn access_lines(gateway: &GatewayProcess) -> Vec<Value> {
    let output = gateway.process.output();
    let lines = output.iter().map(|line| -> Value {
        serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"))
    });
    lines.filter(|line| line["target"] == "access").collect()
}

/// Some fields of a line, as a list; what is not there is null.
fn fields<const N: usize>(line: &Value, names: [&str; N]) -> Value {
    names.map(|name| line[name].clone()).to_vec().into()
}

#[tokio::test]
async fn a_line_says_what_became_of_a_request() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let dead = Upstream::ok();
    dead.stop().await;
    let gateway = GatewayProcess::start(&format!(
        "
{}
trusted_proxies: [127.0.0.1]
clients: [{{ user_id: {{}} }}]
limits:
  one: {{ fixed_window: {{ limit: 1, window: 31d }} }}
  shared: {{ fixed_window: {{ limit: 9, window: 31d }}, per: [] }}
routes:
  - {{ name: limited, path: \"/limited/{{id}}\", upstream: \"{}\", limits: [one] }}
  - {{ name: shared, path: /shared, upstream: \"{1}\", limits: [shared] }}
  - {{ name: free, path: /free, methods: [GET], upstream: \"{1}\" }}
  - {{ name: dead, path: /dead, upstream: \"{}\" }}
",
        exact(&redis),
        upstream.url(),
        dead.url()
    ))
    .await;
    let client = Client::new(gateway.address);
    let rider = [("x-user-id", "rider-7")];
    get(&client, "/limited/5?token=hunter2", &rider).await;
    get(&client, "/limited/6", &rider).await;
    get(&client, "/shared", &[]).await;
    get(&client, "/free", &[]).await;
    send(&client, Method::POST, "/free", &[]).await;
    get(&client, "/nowhere", &[]).await;
    get(&client, "/dead", &[]).await;
    let lines = lines(&gateway, 7).await;
    let names = [
        "method",
        "path",
        "status",
        "outcome",
        "route",
        "client",
        "limit",
        "decided_by",
    ];
    let told: Vec<_> = lines.iter().map(|line| fields(line, names)).collect();
    let (rider, local) = ("user_id:rider-7", "ip:127.0.0.1");
    let expected = [
        json!([
            "GET",
            "/limited/5",
            200,
            "forwarded",
            "limited",
            rider,
            "one",
            "store"
        ]),
        json!([
            "GET",
            "/limited/6",
            429,
            "limited",
            "limited",
            rider,
            "one",
            "store"
        ]),
        // A limit that the client was not told of is not named.
        json!([
            "GET",
            "/shared",
            200,
            "forwarded",
            "shared",
            local,
            null,
            "store"
        ]),
        json!(["GET", "/free", 200, "forwarded", "free", local, null, null]),
        json!(["POST", "/free", 405, "rejected", null, local, null, null]),
        json!(["GET", "/nowhere", 404, "rejected", null, local, null, null]),
        json!(["GET", "/dead", 502, "failed", "dead", local, null, null]),
    ];
    assert_eq!(told, expected);
    for (line, (stored, forwarded)) in lines.iter().zip([
        (true, true),
        (true, false),
        (true, true),
        (false, true),
        (false, false),
        (false, false),
        (false, true),
    ]) {
        let took = |name: &str| line[name].as_u64();
        assert_eq!(took("store_us").is_some(), stored, "{line}");
        assert_eq!(took("upstream_us").is_some(), forwarded, "{line}");
        let parts = took("store_us").unwrap_or(0) + took("upstream_us").unwrap_or(0);
        assert!(took("total_us").unwrap() >= parts, "{line}");
        assert!(
            !line.to_string().contains("hunter2"),
            "a query was logged: {line}"
        );
    }
}

/// The word of a refusal that Redis was not asked about again: in the log, the metrics and the status document.
#[tokio::test]
async fn a_remembered_refusal_says_so() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let gateway = GatewayProcess::start(&format!(
        "
{}
limits: {{ one: {{ fixed_window: {{ limit: 1, window: 31d }} }} }}
routes: [{{ path: /**, upstream: \"{}\", limits: [one] }}]
",
        exact(&redis),
        upstream.url()
    ))
    .await;
    let client = Client::new(gateway.address);
    let counted =
        "tidegate_decisions_total{limit=\"one\",verdict=\"refused\",decided_by=\"remembered\"}";
    // On a busy machine more than a second may pass between two requests, and Redis is asked again.
    until("a refusal is remembered", async || {
        get(&client, "/", &[]).await;
        sample(gateway.admin, counted).await > 0
    })
    .await;
    let pattern = "\"decided_by\":\"remembered\"";
    let line = gateway.process.wait_for_line(pattern, LONG).await;
    let line: Value = serde_json::from_str(&line).unwrap();
    let told = fields(&line, ["status", "outcome", "limit", "store_us"]);
    assert_eq!(told, json!([429, "limited", "one", null]));
    until("the status document has it", async || {
        let answer = browser(gateway.admin).get("/status.json").await;
        let status: Value = serde_json::from_str(answer.text()).unwrap();
        status["limits"][0]["decided_by"]["remembered"].as_u64() > Some(0)
    })
    .await;
}

#[tokio::test]
async fn who_left_early_is_499_and_abandoned() {
    let upstream = Upstream::start(|_| std::future::pending::<Response<_>>());
    let gateway = GatewayProcess::start(&format!(
        "routes: [{{ name: never, path: /**, upstream: \"{}\" }}]\n",
        upstream.url()
    ))
    .await;
    let mut client = RawClient::connect(gateway.address).await;
    send_get(&mut client, "/slow").await;
    upstream.wait_for(1, LONG).await;
    drop(client);
    let line = lines(&gateway, 1).await.remove(0);
    let told = fields(&line, ["method", "path", "status", "outcome", "route"]);
    assert_eq!(told, json!(["GET", "/slow", 499, "abandoned", "never"]));
}

/// Whatever a user is called, it is one field of one line.
#[tokio::test]
async fn a_name_makes_no_fields_of_its_own() {
    let upstream = Upstream::ok();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    let yaml = format!(
        "
listen: 127.0.0.1:0
admin: 127.0.0.1:0
trusted_proxies: [127.0.0.1]
clients: [{{ user_id: {{}} }}]
routes: [{{ path: /**, upstream: \"{}\" }}]
",
        upstream.url()
    );
    std::fs::write(&file, yaml).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("run").arg("-c").arg(&file);
    let process = Process::spawn(command);
    let listening = process.wait_for_line("listening", LONG).await;
    let address = listening.split("address=").nth(1).unwrap();
    let address = address.split_whitespace().next().unwrap().parse().unwrap();
    let id = "x status=500 client=\"user_id:alice\"";
    get(&Client::new(address), "/", &[("x-user-id", id)]).await;
    let line = process.wait_for_line("GET", LONG).await;
    assert!(
        line.contains(r#"client="user_id:x status=500 client=\"user_id:alice\"""#),
        "{line}"
    );
}

/// Stopped right after the last answer, the gateway still writes every line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_line_is_lost_at_the_end() {
    let upstream = Upstream::ok();
    let mut gateway = GatewayProcess::before(&upstream).await;
    // Somebody who watches the gateway holds no line back.
    let watching = Client::new(gateway.admin);
    assert_eq!(watching.get("/metrics").await.status, 200);
    let client = Client::new(gateway.address);
    const REQUESTS: usize = 1_000;
    for i in 0..REQUESTS {
        let request = Request::get(format!("/{i}")).body(body::empty()).unwrap();
        assert_eq!(client.request(request).await.status, 200);
    }
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.wait(LONG).await.code(), Some(0));
    gateway.process.wait_for_line("\"stopped\"", LONG).await;
    let lines = access_lines(&gateway);
    let paths: HashSet<_> = lines
        .iter()
        .map(|line| line["path"].as_str().unwrap())
        .collect();
    assert_eq!((lines.len(), paths.len()), (REQUESTS, REQUESTS));
}
