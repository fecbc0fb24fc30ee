//! What must not be told: keys, passwords and secrets stand nowhere, users only where a log names the client.

use std::process::Command;

use tidegate_testkit::{Client, Process, RedisConnection, RedisServer, Upstream};

use crate::kit::{LONG, get, page, ready};

const API_KEY: &str = "alpha-key";
/// Its SHA-256.
const HASH: &str = "677509799af78b2efa2f2af71d0f906e0a0c50c048efd3b515625f788e92b99a";
const PASSWORD: &str = "planted-redis-password";
const SECRET: &str = "planted-hashing-secret";
const USER: &str = "planted-user-id";

/// Nowhere at all.
const SECRETS: [&str; 4] = [API_KEY, HASH, PASSWORD, SECRET];

/// A gateway that logs all it can, with the address of its Redis as given.
struct Talkative {
    process: Process,
    client: Client,
    admin: std::net::SocketAddr,
    _folder: tempfile::TempDir,
}

impl Talkative {
    async fn start(redis: &str, upstream: &Upstream) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        let yaml = format!(
            "
listen: 127.0.0.1:0
admin: 127.0.0.1:0
log: {{ format: json, level: trace }}
store: {{ redis: {{ url: \"{redis}\", timeout: 5s, on_failure: closed }} }}
secret: {SECRET}
trusted_proxies: [127.0.0.1]
clients: [{{ api_key: {{ keys: [{{ name: alpha, hash: sha256:{HASH} }}] }} }}, {{ user_id: {{}} }}]
limits:
  bucket: {{ token_bucket: {{ capacity: 2, refill: 1/d }} }}
  queue: {{ leaky_bucket: {{ queue: 9, drain: 1/d, nodelay: true }}, per: [client, route] }}
  window: {{ fixed_window: {{ limit: 9, window: 1d }}, per: [api_key] }}
  log: {{ sliding_window_log: {{ limit: 9, window: 1d }}, per: [user_id, method] }}
  counter: {{ sliding_window_counter: {{ limit: 9, window: 1d }}, per: [host] }}
routes:
  - {{ path: /api, upstream: \"{}\", limits: [bucket, queue, window, log, counter] }}
",
            upstream.url()
        );
        std::fs::write(&file, yaml).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("-c").arg(&file);
        let process = Process::spawn(command);
        let address = async |pattern| {
            let line = process.wait_for_line(pattern, LONG).await;
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            line["address"].as_str().unwrap().parse().unwrap()
        };
        let client = Client::new(address("\"listening\"").await);
        let admin = address("admin port").await;
        Self {
            process,
            client,
            admin,
            _folder: folder,
        }
    }

    /// Requests of all kinds; gives back all that was answered.
    async fn traffic(&self) -> String {
        let mut told = String::new();
        let key = [("x-api-key", API_KEY)];
        let user = [("x-user-id", USER)];
        for headers in [&key[..], &user, &[]] {
            for path in ["/api", "/api", "/api", "/nowhere", "/api%zz"] {
                let request = headers
                    .iter()
                    .fold(http::Request::get(path), |request, header| {
                        request.header(header.0, header.1)
                    });
                let body = tidegate_testkit::body::empty();
                let answer = self.client.request(request.body(body).unwrap()).await;
                told += &format!("{:?}\n{}\n", answer.headers, answer.text());
            }
        }
        for path in ["/readyz", "/metrics", "/nowhere"] {
            told += &page(self.admin, path).await.1;
        }
        told
    }

    /// Stops it and gives back all that it logged.
    async fn log(mut self) -> Vec<String> {
        self.process.signal("TERM");
        self.process.wait(LONG).await;
        self.process.wait_for_line("\"stopped\"", LONG).await;
        self.process.output()
    }
}

fn holds_no_secret(what: &str, text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{what} tells {secret}:\n{text}");
    }
}

/// All that stands in a Redis, names and contents, as text.
async fn dump(connection: &mut RedisConnection) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut cursor = "0".to_owned();
    loop {
        let reply = connection
            .command(&["SCAN", &cursor, "COUNT", "1000"])
            .await
            .unwrap();
        let [next, keys] = reply.as_array() else {
            panic!("{reply:?}");
        };
        for key in keys.as_array() {
            let key = key.as_str();
            // A probe's key ends within milliseconds.
            if key.contains(":probe:") {
                continue;
            }
            let lives = connection.command(&["PTTL", key]).await.unwrap().as_int();
            assert!(lives > 0, "{key} lives for {lives} ms");
            let content = connection.command(&["DUMP", key]).await.unwrap();
            let tidegate_testkit::Reply::Bulk(content) = content else {
                panic!("{content:?}");
            };
            found.push((
                key.to_owned(),
                String::from_utf8_lossy(&content).into_owned(),
            ));
        }
        next.as_str().clone_into(&mut cursor);
        if cursor == "0" {
            return found;
        }
    }
}

#[tokio::test]
async fn nothing_secret_stands_in_redis_logs_metrics_or_answers() {
    let redis = RedisServer::start_with(&["--requirepass", PASSWORD]).await;
    let upstream = Upstream::ok();
    let url = format!("redis://:{PASSWORD}@{}", redis.addr());
    let gateway = Talkative::start(&url, &upstream).await;
    let told = gateway.traffic().await;
    assert!(
        told.contains("rate_limit_exceeded"),
        "the traffic should meet a limit:\n{told}"
    );
    holds_no_secret("an answer", &told);
    assert!(!told.contains(USER), "an answer tells the user");

    let mut connection = redis.connect().await;
    connection.command(&["AUTH", PASSWORD]).await.unwrap();
    let kept = dump(&mut connection).await;
    let kinds = ["bucket:", "queue:", "window:", "log:", "counter:"];
    for kind in kinds {
        assert!(
            kept.iter().any(|(key, _)| key.contains(kind)),
            "no {kind} in {kept:?}"
        );
    }
    // Three clients, of whom each lacks a key or a user and counts there by address; one host; a fingerprint, and the gateways.
    assert_eq!(kept.len(), 3 + 3 + 2 + 2 + 1 + 2, "{kept:?}");
    for (key, content) in &kept {
        for text in [key, content] {
            holds_no_secret(key, text);
            for name in [USER, "alpha", "127.0.0.1", "/api"] {
                assert!(!text.contains(name), "{key} tells {name}");
            }
        }
    }

    // An outage is talked about as well.
    redis.stop();
    ready(gateway.admin, 503).await;
    // So long a refusal is remembered at most.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let told = gateway.traffic().await;
    assert!(told.contains("limits_unavailable"), "{told}");
    holds_no_secret("an answer", &told);

    let log = gateway.log().await;
    holds_no_secret("the log", &log.join("\n"));
    for line in log.iter().filter(|line| line.contains(USER)) {
        let client = format!("\"client\":\"user_id:{USER}\"");
        let rest = line.replace(&client, "");
        assert!(
            !rest.contains(USER),
            "the user stands elsewhere than under client: {line}"
        );
    }
}

#[tokio::test]
async fn a_wrong_password_is_told_of_but_not_told() {
    let redis = RedisServer::start_with(&["--requirepass", "the right one"]).await;
    let upstream = Upstream::ok();
    let url = format!("redis://somebody:{PASSWORD}@{}", redis.addr());
    let gateway = Talkative::start(&url, &upstream).await;
    ready(gateway.admin, 503).await;
    assert_eq!(get(&gateway.client, "/api", &[]).await, 503);
    let told = gateway.traffic().await;
    holds_no_secret("an answer", &told);
    holds_no_secret("the log", &gateway.log().await.join("\n"));
}
