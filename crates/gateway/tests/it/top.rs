//! `tidegate top` in a pipe: what it prints of one gateway, of several, and of one that is away.

use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output};

use http::Response;
use tidegate_status::document::Status;
use tidegate_testkit::{Client, Upstream, body};

use crate::kit::{Bench, get, until};

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
    for admin in admins {
        command.arg("--gateway").arg(format!("http://{admin}"));
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
    let (text, errors, code) = top(&[away], &["--once"]).await;
    assert_eq!((text.as_str(), code), ("", Some(1)));
    assert!(errors.contains("no gateway answers"), "{errors}");
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn the_terminal_is_as_it_was_after_a_signal_and_a_key() {
    let bench = refusing(3).await;
    for end in ["kill -TERM $pid", "kill -HUP $pid", "printf q > keys"] {
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
async fn another_version_is_said_plainly() {
    let later = Upstream::start(|_| async { Response::new(body::full("{\"version\":2}")) });
    let other = Upstream::ok();
    for (gateway, said) in [
        (&later, "has version 2"),
        (&other, "is not that of a gateway"),
    ] {
        let (text, errors, code) = top(&[gateway.addr()], &["--once"]).await;
        assert_eq!((text.as_str(), code), ("", Some(1)));
        assert!(errors.contains(said), "{errors}");
    }
}
