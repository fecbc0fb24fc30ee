//! The access log in a file of its own: its formats and fields, and which requests get a line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use http::{Request, Response};
use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_testkit::{Client, RawClient, Upstream, body};

use crate::kit::{answer_to, get};
use crate::support::TestGateway;

/// Settings of the log: an access log in `file`, with more settings.
pub(crate) fn log(file: &Path, more: &str) -> String {
    format!("access: {{ file: \"{}\", {more} }}", file.display())
}

/// The whole lines of a file.
pub(crate) fn lines(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "torn: {text}");
    text.lines().map(str::to_owned).collect()
}

/// Lines as JSON objects.
pub(crate) fn objects(lines: &[String]) -> Vec<Value> {
    let read =
        |line: &String| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
    lines.iter().map(read).collect()
}

/// Sends requests with these heads, each on a connection of its own.
async fn send_raw(gateway: &TestGateway, heads: &[Vec<u8>]) {
    for head in heads {
        let mut client = RawClient::connect(gateway.address).await;
        answer_to(&mut client, head.clone()).await;
    }
}

/// What a client may put into a head.
fn hostile_heads() -> Vec<Vec<u8>> {
    let head = |start: &str, agent: &[u8]| {
        let mut head = format!(
            "{start} HTTP/1.1\r\nhost: a\r\nreferer: https://b/\"?token=hunter2\r\nuser-agent: "
        )
        .into_bytes();
        head.extend_from_slice(agent);
        head.extend_from_slice(b"\r\n\r\n");
        head
    };
    vec![
        head("GET /plain", b"curl/8"),
        head("GET /\"quoted\"", b"\" 200 12 \"-\" \"forged"),
        head("GET /%0a%22%5c", b"back\\slash\\"),
        head("GET /[x]", b"\xff\xfe \xc3\xbc \xe2\x80"),
        head("GET /${jndi:x}$status", b"$status ${x} {\"a\":1}"),
        head("OPTIONS *", b"\t\x80"),
        head("PR0PF|ND /odd", b"'"),
        head(
            &format!("GET /{}", "\"".repeat(3_000)),
            "ü".repeat(2_000).as_bytes(),
        ),
        b"GET / HTTP/1.1\r\nhost: a\r\nbad header\r\n\r\n".to_vec(),
    ]
}

/// A gateway whose access log is a file, and what it wrote once it has stopped.
struct Logged {
    gateway: TestGateway,
    _upstream: Upstream,
    folder: TempDir,
    file: PathBuf,
}

impl Logged {
    /// Starts one with these settings of the access log; the configuration has one route, and `more`.
    async fn start(settings: &str, more: &str) -> Self {
        let upstream = Upstream::ok();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("access.log");
        let config = format!(
            "log: {{ {} }}\n{more}\nroutes: [{{ name: all, path: /**, upstream: \"{}\" }}]\n",
            log(&file, settings),
            upstream.url()
        );
        Self {
            gateway: TestGateway::start(&config).await,
            _upstream: upstream,
            folder,
            file,
        }
    }

    /// Stops it; its lines.
    async fn stop(self) -> (Vec<String>, TempDir, PathBuf) {
        self.gateway.stop().await;
        (lines(&self.file), self.folder, self.file)
    }
}

#[tokio::test]
async fn each_field_has_its_value() {
    let upstream = Upstream::ok();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access.log");
    let fields = "fields: [time, time_local, id, method, host, path, protocol, status, outcome, error, route, peer, peer_port, \
        client_ip, client, user_agent, referer, plan, limit, refused_by, decided_by, would_refuse, remaining, retry_after, cost, \
        bytes_in, bytes_out, upstream, upstream_status, attempts, waited_us, store_us, upstream_us, total_us, trace_id, lost]";
    let gateway = TestGateway::start(&format!(
        "
log: {{ {} }}
trusted_proxies: [127.0.0.1]
limits:
  one: {{ fixed_window: {{ limit: 9, window: 31d }}, cost: {{ header: x-cost, max: 9 }} }}
  two: {{ fixed_window: {{ limit: 7, window: 31d }}, cost: 7 }}
routes: [{{ name: api, path: /api/**, upstream: \"{}\", limits: [one, two] }}]
",
        log(&file, &format!("format: json, {fields}")),
        upstream.url()
    ))
    .await;
    let client = Client::new(gateway.address);
    let request = || {
        Request::post("/api/x?token=hunter2")
            .header("host", "shop.example:8080")
            .header("user-agent", "curl/8")
            .header("referer", "https://b/c?token=hunter2#d")
            .header("x-cost", "3")
            .body(body::full("123"))
            .unwrap()
    };
    assert_eq!(client.request(request()).await.status, 200);
    assert_eq!(client.request(request()).await.status, 429);
    gateway.stop().await;
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    let [admitted, refused] = &objects(&lines(&file))[..] else {
        panic!("{text}");
    };
    let server = upstream.url().trim_start_matches("http://").to_owned();
    for (name, value) in [
        ("method", json!("POST")),
        ("host", json!("shop.example:8080")),
        ("path", json!("/api/x")),
        ("protocol", json!("HTTP/1.1")),
        ("status", json!(200)),
        ("route", json!("api")),
        ("peer", json!("127.0.0.1")),
        ("client", json!("ip:127.0.0.1")),
        ("user_agent", json!("curl/8")),
        ("referer", json!("https://b/c")),
        ("limit", json!("two")),
        ("refused_by", Value::Null),
        ("remaining", json!(0)),
        ("retry_after", Value::Null),
        ("cost", json!(7)),
        ("bytes_in", json!(3)),
        ("bytes_out", json!(11)),
        ("upstream", json!(server)),
        ("upstream_status", json!(200)),
        ("attempts", json!(1)),
        ("trace_id", Value::Null),
        ("lost", Value::Null),
    ] {
        assert_eq!(admitted[name], value, "{name}: {admitted}");
    }
    for (name, value) in [
        ("status", json!(429)),
        ("outcome", json!("limited")),
        ("error", Value::Null),
        ("refused_by", json!("two")),
        ("bytes_in", json!(0)),
        ("upstream", Value::Null),
        ("attempts", Value::Null),
    ] {
        assert_eq!(refused[name], value, "{name}: {refused}");
    }
    assert!(refused["retry_after"].as_u64().unwrap() >= 1, "{refused}");
    assert!(refused["bytes_out"].as_u64().unwrap() > 100, "{refused}");
    assert!(admitted["peer_port"].as_u64().unwrap() > 0, "{admitted}");
    let (arrival, end) = (
        admitted["time"].as_str().unwrap(),
        admitted["timestamp"].as_str().unwrap(),
    );
    assert!(arrival < end, "{admitted}");
    assert!(
        admitted["time_local"].as_str().unwrap().ends_with(" +0000"),
        "{admitted}"
    );
}

/// `jq` and the like read every line, whatever clients send.
#[tokio::test]
async fn each_json_line_is_an_object_whatever_clients_send() {
    let fields = "format: json, fields: [path, method, user_agent, referer, status, host]";
    let logged = Logged::start(fields, "").await;
    let heads = hostile_heads();
    send_raw(&logged.gateway, &heads).await;
    let (lines, _folder, file) = logged.stop().await;
    let objects = objects(&lines);
    assert_eq!(objects.len(), heads.len());
    assert_eq!(objects[1]["path"], "/%22quoted%22");
    assert_eq!(objects[1]["user_agent"], "\" 200 12 \"-\" \"forged");
    assert_eq!(objects[1]["referer"], "https://b/\"");
    assert_eq!(objects[8]["path"], "-");
    let long = objects[7]["path"].as_str().unwrap();
    assert!(
        long.ends_with('…') && long.len() == 1_024 + '…'.len_utf8(),
        "{long}"
    );
    if let Ok(jq) = Command::new("jq")
        .arg("-r")
        .arg(".path")
        .arg(&file)
        .output()
    {
        assert!(jq.status.success(), "{jq:?}");
        let read = String::from_utf8(jq.stdout).unwrap();
        assert_eq!(read.lines().count(), heads.len());
    }
}

/// `goaccess` and the like read every line, whatever clients send.
#[tokio::test]
async fn each_combined_line_has_its_fields_whatever_clients_send() {
    let users = "trusted_proxies: [127.0.0.1]\nclients: [{ user_id: {} }]";
    let logged = Logged::start("format: combined", users).await;
    let heads = hostile_heads();
    send_raw(&logged.gateway, &heads).await;
    let client = Client::new(logged.gateway.address);
    get(&client, "/", &[("x-user-id", "a b] [22/Nov/2026] \"x")]).await;
    let (lines, folder, file) = logged.stop().await;
    assert_eq!(lines.len(), heads.len() + 1);
    for line in &lines {
        let quoted: Vec<&str> = line.split('"').collect();
        assert_eq!(quoted.len(), 7, "{line}");
        let (start, request, numbers) = (quoted[0], quoted[1], quoted[2]);
        let words: Vec<&str> = start.split(' ').collect();
        assert_eq!(
            (words.len(), words[0], words[4]),
            (6, "127.0.0.1", "+0000]"),
            "{line}"
        );
        assert_eq!(request.split(' ').count(), 3, "{line}");
        let numbers: Vec<u64> = numbers
            .split_whitespace()
            .map(|it| it.parse().unwrap())
            .collect();
        assert!(
            numbers.len() == 2 && (200..600).contains(&numbers[0]),
            "{line}"
        );
        assert!(
            line.bytes().all(|byte| matches!(byte, b' '..=b'~')),
            "{line}"
        );
    }
    assert!(
        lines[1].contains(r#""\x22 200 12 \x22-\x22 \x22forged""#),
        "{}",
        lines[1]
    );
    assert!(!lines.concat().contains("hunter2"));
    let report = folder.path().join("report.json");
    let goaccess = Command::new("goaccess")
        .arg(&file)
        .args(["--log-format=COMBINED", "--no-global-config", "-o"])
        .arg(&report)
        .output();
    // Where it is not installed, the checks above must do.
    if goaccess.is_ok() {
        let report = fs::read_to_string(report).unwrap();
        let report: Value = serde_json::from_str(&report).unwrap();
        let general = &report["general"];
        assert_eq!(general["valid_requests"], lines.len(), "{general}");
        assert_eq!(general["failed_requests"], 0, "{general}");
    }
}

#[tokio::test]
async fn a_template_is_a_line_whatever_clients_send() {
    let template = "format: \"$method|$path|$status|$limit|$${route}x|$$|\\\"$user_agent\\\"\"";
    let logged = Logged::start(template, "").await;
    let heads = hostile_heads();
    send_raw(&logged.gateway, &heads).await;
    let (lines, ..) = logged.stop().await;
    assert_eq!(lines.len(), heads.len());
    assert_eq!(lines[0], "GET|/plain|200|-|allx|$|\"curl/8\"");
    assert_eq!(
        lines[4],
        "GET|/${jndi:x}$status|200|-|allx|$|\"$status ${x} {\\x22a\\x22:1}\""
    );
}

#[tokio::test]
async fn a_filter_and_a_sample_choose_requests() {
    let upstream = Upstream::start(|request| async move {
        let status = if request.uri().path() == "/broken" {
            503
        } else {
            200
        };
        let mut response = Response::new(body::empty());
        *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
        response
    });
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("filter: { outcome: [limited] }", &["/limited"][..]),
        (
            "filter: { status: [404, 5xx] }",
            &["/broken", "/nowhere"][..],
        ),
        ("filter: { duration: 1d }", &[][..]),
        ("filter: { duration: 1d, status: [404] }", &["/nowhere"][..]),
        ("sample: 0%", &["/broken", "/limited", "/nowhere"][..]),
        ("sample: 0%, filter: { status: [2xx] }", &[][..]),
    ];
    for (at, (settings, expected)) in cases.into_iter().enumerate() {
        let file = folder.path().join(format!("{at}.log"));
        let gateway = TestGateway::start(&format!(
            "
log: {{ {} }}
limits: {{ one: {{ fixed_window: {{ limit: 1, window: 31d }} }} }}
routes:
  - {{ path: /limited, upstream: \"{1}\", limits: [one] }}
  - {{ path: /free, upstream: \"{1}\" }}
  - {{ path: /broken, upstream: \"{1}\" }}
",
            log(&file, &format!("format: \"$path $status\", {settings}")),
            upstream.url()
        ))
        .await;
        let client = Client::new(gateway.address);
        for path in ["/free", "/broken", "/limited", "/limited", "/nowhere"] {
            get(&client, path, &[]).await;
        }
        gateway.stop().await;
        let lines = lines(&file);
        let paths: Vec<_> = lines
            .iter()
            .map(|line| line.split(' ').next().unwrap())
            .collect();
        assert_eq!(paths, expected, "{settings}");
    }
}
