//! `tidegate top` in a pipe: what it prints of one gateway, of several, and of one that is away.

use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output};
use std::sync::Arc;

use http::Response;
use tidegate_status::document::Status;
use tidegate_testkit::{Client, Upstream, body};

use crate::kit::{Bench, get, until};
use crate::status::browser;
use crate::support::TestGateway;

const LIMITS: &str = "
limits:
  few: { fixed_window: { limit: 2, window: 31d } }
routes:
  - { name: everything, path: /**, upstream: UPSTREAM, limits: [few] }
";

/// A gateway that has refused this many requests.
async fn refusing(refused: usize) -> Bench {
    let bench = Bench::start(LIMITS).await;
    let client = Client::new(bench.gateway.address);
    for n in 0..2 + refused {
        let expected = if n < 2 { 200 } else { 429 };
        assert_eq!(get(&client, "/", &[]).await, expected);
    }
    let admin = bench.gateway.admin;
    until("it is told of", async || {
        let (json, _, _) = top(&[admin], &["--json"]).await;
        let status: Status = serde_json::from_str(&json).unwrap_or_default();
        status
            .limits
            .iter()
            .any(|limit| limit.minute.refused == refused as u64)
    })
    .await;
    bench
}

/// What it prints, what it complains of, and how it ends.
async fn top(admins: &[SocketAddr], options: &[&str]) -> (String, String, Option<i32>) {
    // No configuration is needed where gateways are named.
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("top").args(options).current_dir(folder.path());
    // The second name is that of the other commands.
    for (admin, option) in admins.iter().zip(["--gateway", "--admin"].iter().cycle()) {
        command.arg(option).arg(format!("http://{admin}"));
    }
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let Output {
        stdout,
        stderr,
        status,
    } = output.await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(stdout), text(stderr), status.code())
}

#[tokio::test]
async fn a_pipe_gets_all_tables_once() {
    let bench = refusing(3).await;
    let (text, errors, code) = top(&[bench.gateway.admin], &[]).await;
    assert_eq!((errors.as_str(), code), ("", Some(0)));
    assert!(
        text.starts_with("healthy  last minute: 5 requests, 3 refused (60.0 %)"),
        "{text}"
    );
    for line in ["Clients", "Limits", "Routes", "Upstreams", "Redis"] {
        assert!(text.lines().any(|it| it == line), "{text}");
    }
    let cells = |name: &str| {
        let mut lines = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        lines.find(|cells| cells.first() == Some(&name)).unwrap()
    };
    assert_eq!(
        cells("ip:127.0.0.1"),
        ["ip:127.0.0.1", "3", "2", "few", "0/2"]
    );
    assert_eq!(cells("few")[..3], ["few", "3", "2"]);
    assert_eq!(cells("everything")[..4], ["everything", "5", "3", "0"]);
    bench.stop().await;
}

#[tokio::test]
async fn several_gateways_are_summed_and_one_that_is_away_is_named() {
    let (one, other) = (refusing(3).await, refusing(4).await);
    let away = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let all = [one.gateway.admin, other.gateway.admin, away];
    let (json, errors, code) = top(&all, &["--json"]).await;
    assert_eq!(code, Some(0), "{errors}");
    assert!(
        errors.contains(&format!("{away}: no gateway answers")),
        "{errors}"
    );
    let status: Status = serde_json::from_str(&json).unwrap();
    let refused = &status.clients.minute.refused;
    assert_eq!((refused.total, refused.top.len()), (7, 1));
    assert_eq!((refused.top[0].at_least, refused.top[0].at_most), (7, 7));
    assert_eq!(status.limits[0].minute.refused, 7);
    let (text, _, _) = top(&all, &["--once"]).await;
    let (head, rest) = text.split_once('\n').unwrap();
    assert!(
        head.starts_with("WARNING  2 of 3 gateways  last minute: 11 requests"),
        "{text}"
    );
    // Their upstreams differ.
    assert!(
        rest.starts_with("  The gateways have different configurations: "),
        "{text}"
    );
    let (text, errors, code) = top(&all[..2], &["--once"]).await;
    assert_eq!((errors.as_str(), code), ("", Some(0)));
    assert!(text.starts_with("WARNING  sum of 2 gateways  "), "{text}");
    let (text, errors, code) = top(&[away], &["--once"]).await;
    assert_eq!((text.as_str(), code), ("", Some(1)));
    let error = format!("error: http://{away}: no gateway answers");
    assert!(errors.starts_with(&error), "{errors}");
    assert_eq!(errors.matches("no gateway answers").count(), 1, "{errors}");
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn the_terminal_is_as_it_was_after_a_signal_and_a_key() {
    let bench = refusing(3).await;
    for end in [
        "kill -TERM $pid",
        "kill -HUP $pid",
        "kill -INT $pid",
        "printf q > keys",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let yaml = LIMITS.replace("UPSTREAM", "\"http://127.0.0.1:9\"");
        std::fs::write(folder.path().join("gateway.yaml"), yaml).unwrap();
        let top = env!("CARGO_BIN_EXE_tidegate");
        // A terminal of 80 columns and 24 lines, whose output is a file and whose keys come from a pipe. What ends the view waits
        // for the client's name on the screen.
        let inside = format!(
            "stty cols 80 rows 24; stty -a > before; {top} top --gateway http://{}; echo $? > code; stty -a > after",
            bench.gateway.admin
        );
        let shell = format!(
            "mkfifo keys; script -qefc '{inside}' screen < keys > /dev/null & exec 3> keys; \
             until grep -q ip:127.0.0.1 screen 2> /dev/null; do sleep 0.02; done; \
             pid=$(pgrep -f 'top --gateway http://{} *$' | head -n 1); {end}; exec 3>&-; wait",
            bench.gateway.admin
        );
        let mut command = Command::new("timeout");
        command.args(["20", "bash", "-c", &shell]);
        command
            .current_dir(folder.path())
            .env("TERM", "xterm-256color");
        let output = tokio::task::spawn_blocking(move || command.output().unwrap());
        let output = output.await.unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name));
        let code = read("code").unwrap_or_else(|error| panic!("{end}: {error} {output:?}"));
        assert_eq!(code, "0\n", "{end}");
        assert_eq!(read("before").unwrap(), read("after").unwrap(), "{end}");
        let screen = read("screen").unwrap();
        let (_, rest) = screen.split_once("\u{1b}[?1049h").unwrap();
        let (drawn, after) = rest.split_once("\u{1b}[?1049l").unwrap();
        assert!(drawn.contains("ip:127.0.0.1"), "{end}");
        assert!(!after.contains("\u{1b}[?1049h"), "{end}: {after}");
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_view_goes_on_after_a_restart_of_its_gateway() {
    let upstream = Upstream::ok();
    let yaml = LIMITS.replace("UPSTREAM", &upstream.url());
    // No other test listens on this address, so none takes the port while nobody listens.
    let gateway = TestGateway::start_with_admin("127.0.2.1:0", &yaml).await;
    let admin = gateway.admin;
    let folder = tempfile::tempdir().unwrap();
    // As below, but for a file that ends it.
    let shell = format!(
        "mkfifo keys; script -qefc 'stty cols 80 rows 24; {} top --gateway http://{admin}; echo $? > code' screen < keys > /dev/null & \
         exec 3> keys; until [ -e end ]; do sleep 0.02; done; printf q > keys; exec 3>&-; wait",
        env!("CARGO_BIN_EXE_tidegate")
    );
    let mut command = Command::new("timeout");
    command.args(["60", "bash", "-c", &shell]);
    command
        .current_dir(folder.path())
        .env("TERM", "xterm-256color");
    let mut view = command.spawn().unwrap();
    // Only what changes is drawn: each text differs in all characters from what stands there before.
    let seen = std::cell::Cell::new(0);
    let drawn = async |text: &str| {
        until(&format!("{text} is drawn"), async || {
            let screen = std::fs::read(folder.path().join("screen")).unwrap_or_default();
            let screen =
                String::from_utf8_lossy(&screen[seen.get().min(screen.len())..]).into_owned();
            let found = screen.find(text);
            found
                .inspect(|at| seen.set(seen.get() + at + text.len()))
                .is_some()
        })
        .await;
    };
    drawn("healthy").await;
    gateway.stop().await;
    drawn("tidegate").await;
    let gateway = TestGateway::start_with_admin(&admin.to_string(), &yaml).await;
    drawn("healthy").await;
    std::fs::write(folder.path().join("end"), "").unwrap();
    let ended = tokio::task::spawn_blocking(move || view.wait().unwrap()).await;
    assert!(ended.unwrap().success());
    let code = std::fs::read_to_string(folder.path().join("code")).unwrap();
    assert_eq!(code, "0\n");
    gateway.stop().await;
}

#[tokio::test]
async fn another_version_is_said_plainly() {
    // Of another version, the rest may have another form.
    let later = Upstream::start(|_| async {
        Response::new(body::full("{\"version\":2,\"limits\":\"none\"}"))
    });
    let other = Upstream::ok();
    let none = Upstream::start(|_| async {
        let mut answer = Response::new(body::full("no"));
        *answer.status_mut() = http::StatusCode::NOT_FOUND;
        answer
    });
    let long = Upstream::start(|_| async { Response::new(body::full(vec![b' '; 17 << 20])) });
    for (gateway, said) in [
        (
            &later,
            "has version 2 of /status.json; this program reads version 1: use the `tidegate` of that gateway",
        ),
        (&other, "is not that of a gateway"),
        (&none, "has no /status.json (404)"),
        (&long, "has more than 16 MiB"),
    ] {
        let (text, errors, code) = top(&[gateway.addr()], &["--once"]).await;
        assert_eq!((text.as_str(), code), ("", Some(1)));
        assert!(errors.contains(said), "{errors}");
        let name = format!("http://{}", gateway.addr());
        assert_eq!(errors.matches(&name).count(), 1, "{errors}");
    }
}

#[tokio::test]
async fn series_are_left_out_if_they_are_not_asked_for() {
    let bench = refusing(3).await;
    let admin = browser(bench.gateway.admin);
    let has_series = async |path: &str| {
        let status: Status = serde_json::from_str(admin.get(path).await.text()).unwrap();
        assert_eq!(status.limits[0].minute.refused, 3, "{path}");
        [
            status.requests.series.is_some(),
            status.limits[0].series.is_some(),
        ]
    };
    assert_eq!(has_series("/status.json?series=none").await, [false; 2]);
    assert_eq!(has_series("/status.json").await, [true; 2]);
    let (json, _, _) = top(&[bench.gateway.admin], &["--json"]).await;
    let status: Status = serde_json::from_str(&json).unwrap();
    assert!(status.requests.series.is_some(), "{json}");
    bench.stop().await;
}

#[tokio::test]
async fn gateways_are_read_at_the_same_time() {
    let both = Arc::new(tokio::sync::Barrier::new(2));
    let start = || {
        let both = both.clone();
        Upstream::start(move |_| {
            let both = both.clone();
            async move {
                both.wait().await;
                Response::new(body::full("{\"version\":1}"))
            }
        })
    };
    let (one, other) = (start(), start());
    let (text, errors, code) = top(&[one.addr(), other.addr()], &["--once"]).await;
    assert_eq!((errors.as_str(), code), ("", Some(0)));
    assert!(text.starts_with("healthy  sum of 2 gateways"), "{text}");
}

#[tokio::test]
async fn a_document_for_a_terminal_has_no_control_characters() {
    let hostile = "user_id:\u{9b}31m\u{202e}\u{7f}";
    let document = serde_json::json!({ "version": 1, "events": [{ "text": hostile }] }).to_string();
    let gateway = Upstream::start(move |_| {
        let document = document.clone();
        async move { Response::new(body::full(document)) }
    });
    let (json, _, code) = top(&[gateway.addr()], &["--json"]).await;
    assert_eq!(code, Some(0));
    let hidden = |char: char| char != '\n' && tidegate_status::shown(char) != char;
    assert!(!json.contains(hidden), "{json:?}");
    let status: Status = serde_json::from_str(&json).unwrap();
    assert_eq!(status.events[0].text, hostile);
}
