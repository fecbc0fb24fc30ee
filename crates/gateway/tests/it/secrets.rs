//! What must not be told: keys, tokens, passwords and secrets, which are planted. They stand in no command to Redis, no key, no
//! metric, no log and no answer, whatever goes wrong. Users stand only where a log names the client.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tempfile::TempDir;
use tidegate_testkit::{Client, Process, RawClient, RedisConnection, RedisServer, Reply, Upstream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::callers::{FAR, listed, sha256, token};
use crate::kit::{LONG, page, ready, send, until};

const PASSWORD: &str = "planted-redis-password";
const SECRET: &str = "planted-hashing-secret";
const TOKEN_KEY: &str = "planted-key-of-tokens";
const KEY: &str = "planted-key";
const UNKNOWN_KEY: &str = "planted-unknown-key";
const USER: &str = "planted-user";

/// All that a run must not tell, with what it is called here.
fn planted() -> Vec<(&'static str, String)> {
    let mut planted = vec![
        ("the password", PASSWORD.to_owned()),
        ("the secret", SECRET.to_owned()),
        ("the tokens' key", TOKEN_KEY.to_owned()),
        ("a listed key", KEY.to_owned()),
        ("its hash", sha256(KEY)),
        ("an unknown key", UNKNOWN_KEY.to_owned()),
        ("its hash", sha256(UNKNOWN_KEY)),
    ];
    for (what, token) in [("a token", valid()), ("a forged token", forged())] {
        planted.extend(token.split('.').skip(1).map(|part| (what, part.to_owned())));
    }
    planted
}

fn valid() -> String {
    token(TOKEN_KEY, &json!({ "sub": USER, "exp": FAR }))
}

fn forged() -> String {
    token(
        "not the key",
        &json!({ "sub": "planted-other", "exp": FAR }),
    )
}

fn holds_nothing(what: &str, text: &str) {
    for (name, secret) in planted() {
        assert!(!text.contains(&secret), "{what} tells {name}:\n{text}");
    }
}

/// All that Redis is told, as it is told.
struct Monitor(Arc<Mutex<Vec<u8>>>);

impl Monitor {
    async fn start(redis: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(redis).await.unwrap();
        let ask = format!("AUTH {PASSWORD}\r\nMONITOR\r\n");
        stream.write_all(ask.as_bytes()).await.unwrap();
        let mut greeting = [0; 10];
        stream.read_exact(&mut greeting).await.unwrap();
        assert_eq!(&greeting, b"+OK\r\n+OK\r\n");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        tokio::spawn(async move {
            let mut part = vec![0; 64 * 1024];
            while let Ok(length @ 1..) = stream.read(&mut part).await {
                log.lock().unwrap().extend_from_slice(&part[..length]);
            }
        });
        Self(seen)
    }

    /// What was seen, once it has seen this, which was sent after everything else.
    async fn until(&self, last: &str) -> String {
        let seen = || String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned();
        until(last, async || seen().contains(last)).await;
        seen()
    }
}

/// The real binary with all its sources of clients, as talkative as it can be.
struct Gateway {
    process: Process,
    address: SocketAddr,
    admin: SocketAddr,
    _folder: TempDir,
}

impl Gateway {
    async fn start(redis: &str, upstream: &Upstream, secret: &str, format: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token.key"), TOKEN_KEY).unwrap();
        std::fs::write(
            folder.path().join("keys.yaml"),
            format!("- {}\n", listed("alpha-reader")),
        )
        .unwrap();
        let yaml = format!(
            "
listen: 127.0.0.1:0
admin: 127.0.0.1:0
log: {{ format: {format}, level: trace }}
store: {{ redis: {{ url: \"{redis}\", timeout: 5s, on_failure: closed }} }}
{secret}
trusted_proxies: [127.0.0.1]
forward_client: X-Client-Id
clients:
  - api_key: {{ keys_file: keys.yaml, unknown: reject }}
  - jwt: {{ algorithms: [HS256], key_file: token.key, invalid: reject }}
  - api_key: {{ header: X-Open-Key, unknown: accept }}
  - user_id: {{}}
limits:
  guard: {{ fixed_window: {{ limit: 60, window: 31d }}, per: [ip] }}
  own: {{ token_bucket: {{ capacity: 3, refill: 1/d }} }}
  queue: {{ leaky_bucket: {{ queue: 9, drain: 1/d, nodelay: true }}, per: [client, route] }}
  counter: {{ sliding_window_counter: {{ limit: 1000, window: 1d }}, per: [host] }}
  log: {{ sliding_window_log: {{ limit: 9, window: 31d }}, per: [user_id, \"header:x-api-key\", \"cookie:session\"] }}
always: [guard]
routes:
  - {{ path: /api, upstream: \"{0}\", limits: [own, log, queue, counter] }}
  - {{ path: \"/keys/{{key}}\", upstream: http://127.0.0.1:1, limits: [own] }}
",
            upstream.url()
        );
        let file = folder.path().join("gateway.yaml");
        std::fs::write(&file, yaml).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("-c").arg(&file);
        let process = Process::spawn(command);
        let address = async |pattern| {
            let line = process.wait_for_line(pattern, LONG).await;
            let at = line.find("127.0.0.1:").unwrap();
            let digits = |b: char| b.is_ascii_digit() || b == '.' || b == ':';
            let address: String = line[at..].chars().take_while(|b| digits(*b)).collect();
            address.parse().unwrap()
        };
        Self {
            address: address("listening").await,
            admin: address("admin port").await,
            process,
            _folder: folder,
        }
    }

    /// Requests that are admitted, refused, forged, broken and sent to nowhere; gives back all that was answered.
    async fn traffic(&self) -> String {
        let bearers = [valid(), forged()].map(|token| format!("Bearer {token}"));
        let cookie = format!("session={KEY}");
        let client = Client::new(self.address).knows("www-authenticate");
        let mut told = String::new();
        for headers in [
            &[("x-api-key", KEY), ("cookie", &cookie)][..],
            &[("x-api-key", UNKNOWN_KEY)],
            &[("x-api-key", KEY), ("x-api-key", UNKNOWN_KEY)],
            &[("authorization", &bearers[0])],
            &[("authorization", &bearers[1])],
            &[
                ("authorization", &bearers[0]),
                ("authorization", &bearers[1]),
            ],
            &[("x-open-key", UNKNOWN_KEY)],
            &[("x-open-key", KEY), ("x-user-id", "rider")],
        ] {
            for path in ["/keys/1", "/api", "/api", "/api", "/nowhere", "/api%zz"] {
                let answer = send(&client, http::Method::GET, path, headers).await;
                told += &format!(
                    "{} {:?}\n{}\n",
                    answer.status,
                    answer.headers,
                    answer.text()
                );
            }
        }
        for broken in [
            format!(
                "GET /api HTTP/1.1\r\nX-API-Key: {KEY}\r\nAuthorization: {}\r\n\r\n",
                bearers[0]
            ),
            format!(
                "GET /api HTTP/1.1\r\nHost: a\r\nX-API-Key: {UNKNOWN_KEY}\r\nContent-Length: x\r\n\r\n"
            ),
            format!("GET /api HTTP/1.1\r\nHost: a\r\nX-API-Key: {KEY}\0\r\n\r\n"),
            format!("{KEY} /api HTTP/9.9\r\nHost: a\r\n\r\n"),
            format!(
                "GET /api HTTP/1.1\r\nHost: a\r\nX-API-Key: {}{KEY}\r\n\r\n",
                "k".repeat(70_000)
            ),
        ] {
            let mut client = RawClient::connect(self.address).await;
            _ = client.send(&broken).await;
            client.finish().await;
            let (answer, _) = client.read_to_close(LONG).await;
            told += &String::from_utf8_lossy(&answer);
        }
        for path in ["/readyz", "/healthz", "/metrics", "/nowhere"] {
            told += &page(self.admin, path).await.1;
        }
        told
    }

    /// Stops it and gives back all that it logged.
    async fn log(mut self) -> String {
        self.process.signal("TERM");
        self.process.wait(LONG).await;
        self.process.wait_for_line("stopped", LONG).await;
        self.process.output().join("\n")
    }
}

/// All that stands in Redis: names, and contents as their types give them.
async fn dump(connection: &mut RedisConnection) -> String {
    let keys = connection.command(&["KEYS", "*"]).await.unwrap();
    let mut found = String::new();
    for key in keys.as_array() {
        let key = key.as_str();
        let kind = connection.command(&["TYPE", key]).await.unwrap();
        let read: &[&str] = match kind.as_str() {
            "string" => &["GET", key],
            "hash" => &["HGETALL", key],
            "list" => &["LRANGE", key, "0", "-1"],
            "zset" => &["ZRANGE", key, "0", "-1", "WITHSCORES"],
            // It has ended meanwhile, as keys of probes do.
            "none" => continue,
            other => panic!("{key} is a {other}"),
        };
        let lives = connection.command(&["PTTL", key]).await.unwrap().as_int();
        assert!(
            lives > 0 || key.contains(":probe:"),
            "{key} lives for {lives} ms"
        );
        found += &format!(
            "{key}\n{}\n",
            text(&connection.command(read).await.unwrap())
        );
    }
    found
}

fn text(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Reply::Array(items) => items.iter().map(text).collect::<Vec<_>>().join("\n"),
        other => format!("{other:?}"),
    }
}

async fn run(secret: &str, format: &str) {
    let redis = RedisServer::start_with(&["--requirepass", PASSWORD]).await;
    let monitor = Monitor::start(redis.addr()).await;
    let upstream = Upstream::ok();
    let url = format!("redis://:{PASSWORD}@{}", redis.addr());
    let gateway = Gateway::start(&url, &upstream, secret, format).await;
    ready(gateway.admin, 200).await;
    let told = gateway.traffic().await;
    for status in ["200", "400", "401", "404", "429", "502"] {
        let line = format!("{status} ");
        let met = told.lines().any(|l| l.starts_with(&line));
        assert!(met, "the traffic should meet a {status}:\n{told}");
    }
    holds_nothing("an answer", &told);
    assert!(!told.contains(USER), "an answer tells the user");

    let mut connection = redis.connect().await;
    connection.command(&["AUTH", PASSWORD]).await.unwrap();
    let kept = dump(&mut connection).await;
    for kind in [
        "tidegate:secret",
        "}:own:",
        "}:log:",
        "}:queue:",
        "}:counter:",
    ] {
        assert!(kept.contains(kind), "no {kind} in {kept}");
    }
    holds_nothing("Redis", &kept);
    for name in [USER, "alpha-reader", "rider", "127.0.0.1", "/api"] {
        assert!(!kept.contains(name), "Redis holds {name}: {kept}");
    }
    connection.command(&["ECHO", "that is all"]).await.unwrap();
    let commands = monitor.until("that is all").await;
    assert!(commands.to_lowercase().contains("evalsha"), "{commands}");
    holds_nothing("a command", &commands);
    for name in [USER, "rider", "127.0.0.1:1\"", "api_key", "user_id:"] {
        let mut arguments = commands.lines().filter(|line| line.contains("evalsha"));
        assert!(
            arguments.all(|line| !line.contains(name)),
            "a command tells {name}"
        );
    }
    let made = kept.lines().find_map(|line| line.strip_prefix("secret "));
    assert_eq!(made.is_some(), secret.is_empty());

    redis.stop();
    ready(gateway.admin, 503).await;
    let outage = gateway.traffic().await;
    assert!(outage.contains("limits_unavailable"), "{outage}");
    holds_nothing("an answer", &outage);
    let log = gateway.log().await;
    assert!(log.contains("Redis does not answer decisions"), "{log}");
    holds_nothing("the log", &log);
    for line in log
        .lines()
        .filter(|line| format == "json" && line.contains(USER))
    {
        let rest = line.replace(&format!("\"client\":\"user_id:{USER}\""), "");
        assert!(
            !rest.contains(USER),
            "the user stands elsewhere than under client: {line}"
        );
    }
    if let Some(made) = made {
        for (what, text) in [
            ("an answer", &told),
            ("an answer", &outage),
            ("the log", &log),
        ] {
            assert!(
                !text.contains(made),
                "{what} tells the secret that was made"
            );
        }
    }
}

#[tokio::test]
async fn nothing_planted_is_told_by_a_gateway_with_a_secret_and_a_log_in_json() {
    run(&format!("secret: {SECRET}"), "json").await;
}

#[tokio::test]
async fn nothing_planted_is_told_by_a_gateway_that_made_its_secret_and_logs_text() {
    run("", "text").await;
}

#[tokio::test]
async fn a_wrong_password_is_told_of_but_not_told() {
    let redis = RedisServer::start_with(&["--requirepass", "the right one"]).await;
    let upstream = Upstream::ok();
    let url = format!("redis://somebody:{PASSWORD}@{}", redis.addr());
    let gateway = Gateway::start(&url, &upstream, &format!("secret: {SECRET}"), "json").await;
    ready(gateway.admin, 503).await;
    let told = gateway.traffic().await;
    assert!(told.contains("limits_unavailable"), "{told}");
    holds_nothing("an answer", &told);
    holds_nothing("the log", &gateway.log().await);
}
