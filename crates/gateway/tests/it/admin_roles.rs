//! Tokens of the admin port that have names and roles, and the lines that say who changed what.

use std::fs;

use http::Method;
use serde_json::Value;
use tidegate_status::document::Status;
use tidegate_testkit::{Client, RedisServer, Upstream};

use crate::callers::sha256;
use crate::kit::{LONG, get_each, on_both_stores, one_limit, page_json, ready, send, until};
use crate::status::browser;
use crate::support::{GatewayProcess, TestGateway};

const CLIENT: &str = "/clients/ip:127.0.0.1";
const RESET: &str = "/clients/ip:127.0.0.1/reset";

const LIMIT: &str = "fixed_window: { limit: 3, window: 31d }";

/// An entry for a token.
fn entry(name: &str, token: &str, more: &str) -> String {
    format!(
        "{{ name: {name}, hash: \"sha256:{}\"{more} }}",
        sha256(token)
    )
}

/// Alice may write, the other two may read.
fn admin() -> String {
    let tokens = [
        entry("alice", "hunter2-alice", ", role: write"),
        entry("bob", "hunter2-bob", ", role: read"),
        entry("carol", "hunter2-carol", ""),
    ];
    format!(
        "{{ address: \"127.0.0.1:0\", tokens: [{}] }}",
        tokens.join(", ")
    )
}

/// The audit lines so far, once there are `count` of them.
async fn audit(gateway: &GatewayProcess, count: usize) -> Vec<Value> {
    let pattern = "\"target\":\"audit\"";
    let process = &gateway.process;
    process.wait_for_nth_line(pattern, count, LONG).await;
    let lines = process.output().into_iter();
    lines
        .filter(|line| line.contains(pattern))
        .map(|line| serde_json::from_str(&line).unwrap())
        .collect()
}

#[tokio::test]
async fn a_token_may_do_what_its_role_says() {
    let upstream = Upstream::ok();
    let gateway = TestGateway::start_with_admin(&admin(), &one_limit("", LIMIT, &upstream)).await;
    let client = browser(gateway.admin);
    let ask = async |method, path, headers: &[(&str, &str)]| {
        let answer = send(&client, method, path, headers).await;
        (answer.status.as_u16(), answer.text().to_owned())
    };
    let port = format!("http://{}", gateway.admin);
    for (name, may_write) in [("alice", true), ("bob", false), ("carol", false)] {
        let bearer = format!("Bearer hunter2-{name}");
        let bearer = ("authorization", bearer.as_str());
        let shown = crate::callers::base64url(format!("any:hunter2-{name}").as_bytes());
        // The alphabets are the same for these.
        let padding = "=".repeat((4 - shown.len() % 4) % 4);
        let basic = format!("Basic {shown}{padding}");
        let basic = ("authorization", basic.as_str());
        let document = send(&client, Method::GET, "/", &[basic]).await;
        assert_eq!(document.status, 200, "{name}");
        // The form that changes overrides is for those whose changes are taken.
        let rights = if may_write { "write" } else { "read" };
        let rights = format!("<body data-rights=\"{rights}\">");
        assert!(document.text().contains(&rights), "{name}");
        let cookie = document.header("set-cookie").unwrap().to_owned();
        let cookie = ("cookie", cookie.split(';').next().unwrap());
        let own = ("origin", port.as_str());
        for headers in [&[bearer][..], &[basic, own], &[cookie, own]] {
            for path in [CLIENT, "/config", "/status.json"] {
                assert_eq!(
                    ask(Method::GET, path, headers).await.0,
                    200,
                    "{name} {path}"
                );
            }
            let (status, text) = ask(Method::POST, RESET, headers).await;
            assert_eq!(status, if may_write { 200 } else { 403 }, "{name}: {text}");
            assert_eq!(text.contains("admin_role_needed"), !may_write, "{text}");
        }
        // What a browser may send by itself is no consent.
        assert_eq!(ask(Method::POST, RESET, &[cookie]).await.0, 401);
        let foreign = ("origin", "http://example.com");
        assert_eq!(ask(Method::POST, RESET, &[cookie, foreign]).await.0, 401);
    }
    for wrong in [
        "Bearer hunter2",
        "Bearer alice",
        "Bearer ",
        "Basic aHVudGVyMg==",
    ] {
        let (status, text) = ask(Method::GET, CLIENT, &[("authorization", wrong)]).await;
        assert_eq!(status, 401, "{wrong}");
        assert!(!text.contains("hunter2"), "{text}");
    }
    assert_eq!(ask(Method::GET, CLIENT, &[]).await.0, 401);
    // The hash of a token is no token.
    let hash = format!("Bearer {}", sha256("hunter2-alice"));
    assert_eq!(
        ask(Method::GET, CLIENT, &[("authorization", &hash)])
            .await
            .0,
        401
    );
    gateway.stop().await;
}

/// A browser sends the cookie to all ports of the host, and along with what a page there asks.
#[tokio::test]
async fn a_cookie_alone_changes_nothing() {
    let upstream = Upstream::ok();
    let gateway = TestGateway::start_with_admin(&admin(), &one_limit("", LIMIT, &upstream)).await;
    let client = browser(gateway.admin);
    let alice = [("authorization", "Bearer hunter2-alice")];
    let document = send(&client, Method::GET, "/", &alice).await;
    let cookie = document.header("set-cookie").unwrap().to_owned();
    let cookie = ("cookie", cookie.split(';').next().unwrap());
    let port = format!("http://{}", gateway.admin);
    let own = ("origin", port.as_str());
    let changes = [
        (Method::POST, RESET),
        (Method::PUT, "/overrides/ip:127.0.0.1"),
        (Method::DELETE, "/overrides/ip:127.0.0.1"),
        (Method::POST, "/overrides"),
    ];
    for (method, path) in changes {
        for headers in [
            &[cookie][..],
            &[cookie, ("origin", "null")],
            &[cookie, ("origin", "http://127.0.0.1:1")],
            &[cookie, ("origin", "https://example.com")],
            &[cookie, ("sec-fetch-site", "none")],
            &[cookie, own, ("sec-fetch-site", "same-site")],
            &[cookie, own, ("origin", "http://127.0.0.1:1")],
        ] {
            let answer = send(&client, method.clone(), path, headers).await;
            assert_eq!(answer.status, 401, "{method} {path} {headers:?}");
        }
        let answer = send(&client, method.clone(), path, &[cookie, own]).await;
        assert_ne!(answer.status, 401, "{method} {path}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_reset_is_an_audit_line_and_an_event() {
    on_both_stores(async |store| {
        let upstream = Upstream::ok();
        let yaml = one_limit(store, LIMIT, &upstream);
        // Who changed what is written also where nothing else is.
        let mut gateway = GatewayProcess::start_with(&admin(), "level: info", &yaml).await;
        let client = Client::new(gateway.address);
        get_each(&client, 2, "/", &[], 200).await;
        let admin = browser(gateway.admin);
        let alice = [("authorization", "Bearer hunter2-alice")];
        let bob = [("authorization", "Bearer hunter2-bob")];
        assert_eq!(send(&admin, Method::POST, RESET, &bob).await.status, 403);
        let unknown = "/clients/api_key:nobody/reset";
        assert_eq!(
            send(&admin, Method::POST, unknown, &alice).await.status,
            404
        );
        assert_eq!(send(&admin, Method::POST, RESET, &alice).await.status, 200);
        let line = audit(&gateway, 1).await.remove(0);
        for (field, value) in [
            ("action", "reset"),
            ("by", "alice"),
            ("client", "ip:127.0.0.1"),
            ("before", "it 1/3"),
            ("after", "it 3/3"),
            ("message", "a client's budgets were reset"),
        ] {
            assert_eq!(line[field], value, "{line}");
        }
        assert!(
            line["from"].as_str().unwrap().starts_with("127.0.0.1:"),
            "{line}"
        );
        until("the reset is an event", async || {
            let status = send(&admin, Method::GET, "/status.json", &bob).await;
            let status: Status = serde_json::from_str(status.text()).unwrap();
            let text = "The budgets of ip:127.0.0.1 were reset by alice.";
            let mut events = status.events.iter();
            events.any(|event| event.kind == "reset" && event.text == text)
        })
        .await;
        gateway.process.signal("TERM");
        gateway.process.wait(LONG).await;
        assert_eq!(audit(&gateway, 1).await.len(), 1);
        let output = gateway.process.output().concat();
        assert!(!output.contains("hunter2"), "{output}");
    })
    .await;
}

#[tokio::test]
async fn a_reset_without_tokens_and_one_that_fails_are_told_as_such() {
    let (redis, upstream) = (RedisServer::start().await, Upstream::ok());
    let store = format!(
        "store: {{ redis: {{ url: \"{}\", timeout: 5s }} }}\n",
        redis.url()
    );
    let gateway = GatewayProcess::start(&one_limit(&store, LIMIT, &upstream)).await;
    let admin = browser(gateway.admin);
    assert_eq!(send(&admin, Method::POST, RESET, &[]).await.status, 200);
    redis.stop();
    ready(gateway.admin, 503).await;
    assert_eq!(send(&admin, Method::POST, RESET, &[]).await.status, 503);
    let lines = audit(&gateway, 2).await;
    for line in &lines {
        assert_eq!(
            (&line["action"], &line["by"]),
            (&"reset".into(), &"no token".into())
        );
    }
    assert_eq!(lines[1]["level"], "WARN");
    let error = lines[1]["error"].as_str().unwrap();
    assert!(
        error.starts_with("there is no connection to Redis"),
        "{error}"
    );
}

/// A log of warnings alone has them, too.
#[tokio::test]
async fn audit_lines_are_written_at_every_level_but_off() {
    for (level, lines) in [("error", 1), ("off", 0)] {
        let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::ok());
        let port = tidegate_testkit::Port::reserve();
        let file = folder.path().join("gateway.yaml");
        let yaml = one_limit("", LIMIT, &upstream);
        let head = format!("listen: 127.0.0.1:0\nadmin: \"{}\"\n", port.addr());
        let log = format!("log: {{ format: json, level: \"{level}\" }}\n");
        fs::write(&file, format!("{head}{log}{yaml}")).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("run").arg("-c").arg(&file);
        let mut process = tidegate_testkit::Process::spawn(command);
        until("it listens", async || {
            tokio::net::TcpStream::connect(port.addr()).await.is_ok()
        })
        .await;
        let client = Client::fresh(port.addr());
        assert_eq!(send(&client, Method::POST, RESET, &[]).await.status, 200);
        let pattern = "\"target\":\"audit\"";
        if lines > 0 {
            // The last lines of a process may be read after its end.
            process.wait_for_line(pattern, LONG).await;
        }
        process.signal("TERM");
        process.wait(LONG).await;
        let output = process.output();
        let audit = output.iter().filter(|line| line.contains(pattern));
        assert_eq!(audit.count(), lines, "{level}: {output:?}");
    }
}

/// A reload puts other tokens in force, and those that are gone open nothing any more.
#[tokio::test]
async fn a_reload_takes_a_token_away() {
    let upstream = Upstream::ok();
    let yaml = one_limit("", LIMIT, &upstream);
    let mut gateway = GatewayProcess::start_with(&admin(), "level: info", &yaml).await;
    let alice = [("authorization", "Bearer hunter2-alice")];
    let client = browser(gateway.admin);
    let document = send(&client, Method::GET, "/", &alice).await;
    let cookie = document.header("set-cookie").unwrap().to_owned();
    let cookie = [("cookie", cookie.split(';').next().unwrap())];
    for headers in [&alice, &cookie] {
        assert_eq!(
            send(&client, Method::GET, "/config", headers).await.status,
            200
        );
    }
    let text = fs::read_to_string(gateway.file()).unwrap();
    let text = text.replace(&sha256("hunter2-alice"), &sha256("another"));
    fs::write(gateway.file(), text).unwrap();
    gateway.process.signal("HUP");
    gateway
        .process
        .wait_for_line("configuration reloaded", LONG)
        .await;
    for headers in [&alice, &cookie] {
        assert_eq!(
            send(&client, Method::GET, "/config", headers).await.status,
            401
        );
    }
    let another = [("authorization", "Bearer another")];
    assert_eq!(
        send(&client, Method::POST, RESET, &another).await.status,
        200
    );
}

#[tokio::test]
async fn a_reload_is_an_audit_line_with_its_cause_and_versions() {
    let upstream = Upstream::ok();
    let yaml = one_limit("", LIMIT, &upstream);
    let mut gateway = GatewayProcess::start(&yaml).await;
    let version = async || {
        let config = page_json(gateway.admin, "/config").await;
        config["version"].as_str().unwrap().to_owned()
    };
    let first = version().await;
    gateway.write(&format!("{yaml}# changed\n"));
    let line = audit(&gateway, 1).await.remove(0);
    let second = version().await;
    assert_ne!(first, second);
    let told = |line: &Value| {
        ["action", "cause", "before", "after"].map(|name| line[name].as_str().map(str::to_owned))
    };
    let expected = |cause: &str, before: &str, after: Option<&str>| {
        [Some("reload"), Some(cause), Some(before), after].map(|it| it.map(str::to_owned))
    };
    assert_eq!(told(&line), expected("file", &first, Some(&second)));
    let file = gateway.file().display().to_string();
    assert_eq!(line["file"], file);
    gateway.process.signal("HUP");
    let line = audit(&gateway, 2).await.remove(1);
    assert_eq!(told(&line), expected("signal", &second, Some(&second)));
    gateway.write("limits: 7\n");
    let line = audit(&gateway, 3).await.remove(2);
    assert_eq!(told(&line), expected("file", &second, None));
    assert!(
        line["error"].as_str().unwrap().contains("gateway.yaml"),
        "{line}"
    );
}
