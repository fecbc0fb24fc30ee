//! `tidegate client`: what is printed of one client's budgets, and what when there is no gateway to ask.

use std::process::{Command, Output};

use tempfile::TempDir;
use tidegate_testkit::Upstream;

use crate::callers::listed;
use crate::kit::get;
use crate::support::TestGateway;

const TOKEN: &str = "k7-Vq+0pE/2s=hunter2";

/// A configuration file, and the gateway that runs by it.
struct Running {
    folder: TempDir,
    gateway: Option<TestGateway>,
}

/// What a configuration says beside its admin port.
fn rest(upstream: &str) -> String {
    format!(
        "
clients: [{{ api_key: {{ keys: [{}] }} }}, {{ ip: {{}} }}]
limits:
  month: {{ fixed_window: {{ limit: 500, window: 31d }} }}
  guard: {{ token_bucket: {{ capacity: 20, refill: 1/31d }}, per: [ip] }}
  each: {{ fixed_window: {{ limit: 9, window: 31d }}, per: [client, route] }}
  all: {{ fixed_window: {{ limit: 9, window: 31d }}, per: [] }}
  spare: {{ fixed_window: {{ limit: 7, window: 31d }} }}
plans: {{ gold: {{ month: {{ fixed_window: {{ limit: 500, window: 31d }} }}, spare: unlimited }} }}
routes:
  - {{ name: api, path: /**, upstream: \"{upstream}\", limits: [month, guard, each, all, spare] }}
",
        listed("alpha").replace(" }", ", plan: gold }")
    )
}

fn folder(yaml: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("gateway.yaml"), yaml).unwrap();
    folder
}

impl Running {
    async fn start(admin: &str) -> Self {
        let upstream = Upstream::ok();
        let rest = rest(&upstream.url());
        let gateway = TestGateway::start_with_admin(admin, &rest).await;
        for _ in 0..3 {
            let client = tidegate_testkit::Client::new(gateway.address);
            assert_eq!(get(&client, "/x", &[("x-api-key", "alpha-key")]).await, 200);
        }
        // The port is known now.
        let port = format!(":{}\"", gateway.admin.port());
        let admin = admin.replace(":0\"", &port);
        Self {
            folder: folder(&format!("admin: {admin}\n{rest}")),
            gateway: Some(gateway),
        }
    }

    async fn stop(&mut self) {
        self.gateway.take().unwrap().stop().await;
    }
}

/// Status, standard output and standard error of `tidegate client`.
async fn client(folder: &TempDir, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command
        .arg("client")
        .args(arguments)
        .current_dir(folder.path());
    let output = tokio::task::spawn_blocking(move || command.output());
    let Output {
        status,
        stdout,
        stderr,
    } = output.await.unwrap().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// The table without the times at which all is back.
fn words(out: &str) -> Vec<Vec<&str>> {
    let lines = out.lines().map(|line| line.split("  ").map(str::trim));
    lines
        .map(|cells| cells.filter(|cell| !cell.is_empty()).collect())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_shows_and_resets_by_the_configuration_of_the_gateway() {
    for admin in [
        "\"127.0.0.1:0\"".to_owned(),
        format!("{{ address: \"127.0.0.1:0\", token: \"{TOKEN}\" }}"),
        format!("{{ address: \"0.0.0.0:0\", token: \"{TOKEN}\" }}"),
    ] {
        let mut running = Running::start(&admin).await;
        let (status, out, err) = client(&running.folder, &["api_key:alpha", "show"]).await;
        assert_eq!((status, &*err), (Some(0), ""), "{admin}");
        let lines = words(&out);
        assert_eq!(lines[0], ["api_key:alpha, of the plan gold"]);
        let head = [
            "limit",
            "algorithm",
            "per",
            "left",
            "of",
            "all back",
            "next",
        ];
        assert_eq!(lines[1], head);
        assert_eq!(
            lines[2][..5],
            ["month", "fixed_window", "client", "497", "500"]
        );
        assert_eq!(
            lines[3][..5],
            ["each on api", "fixed_window", "client, route", "6", "9"]
        );
        assert_eq!(lines[3].last(), Some(&"now"));
        assert!(
            out.contains("\nunlimited under this plan: spare\n"),
            "{out}"
        );
        assert!(
            out.contains("only a request has: guard (per ip)\n"),
            "{out}"
        );
        assert!(out.ends_with("shared with others: all\n"), "{out}");
        assert!(
            out.contains("\ncounted by this gateway alone: month, each\n"),
            "{out}"
        );
        let column = |line: &str, word| line.find(word).unwrap();
        let rows: Vec<&str> = out.lines().collect();
        assert_eq!(
            column(rows[2], "fixed_window"),
            column(rows[3], "fixed_window")
        );

        let (status, out, _) = client(&running.folder, &["api_key:alpha", "reset"]).await;
        assert_eq!(status, Some(0));
        let told =
            "\nreset on this gateway alone, since each gateway counts by itself: month, each\n";
        assert!(out.contains(told), "{out}");
        assert_eq!(words(&out)[2][3..], ["500", "500", "now", "now"], "{out}");
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_fails_with_what_is_the_matter() {
    let admin = format!("{{ address: \"127.0.0.1:0\", token: \"{TOKEN}\" }}");
    let mut running = Running::start(&admin).await;
    let port = running.gateway.as_ref().unwrap().admin.port();
    let failed = async |folder: &TempDir, name: &str, words: &[&str]| {
        for task in ["show", "reset"] {
            let (status, out, err) = client(folder, &[name, task]).await;
            assert_eq!((status, &*out), (Some(1), ""), "{err}");
            assert!(err.starts_with("error: "), "{err}");
            for word in words {
                assert!(err.contains(word), "{word} is not in: {err}");
            }
            assert!(!err.contains("hunter2"), "{err}");
        }
    };
    failed(
        &running.folder,
        "api_key:gamma",
        &["404", "no listed API key"],
    )
    .await;
    failed(&running.folder, "ip:here", &["400", "address"]).await;
    let yaml = rest("http://127.0.0.1:9000");
    let other = format!("admin: {{ address: \"127.0.0.1:{port}\", token: hunter2-wrong }}\n{yaml}");
    failed(&folder(&other), "api_key:alpha", &["401", "token"]).await;
    running.stop().await;
    failed(
        &running.folder,
        "api_key:alpha",
        &["is it running", "127.0.0.1:"],
    )
    .await;
    let none = format!("admin: 127.0.0.1:0\n{yaml}");
    failed(&folder(&none), "api_key:alpha", &["port 0"]).await;

    // Something else that listens there.
    let upstream = Upstream::ok();
    let address = upstream.url().replace("http://", "");
    let stranger = format!("admin: \"{address}\"\n{yaml}");
    failed(
        &folder(&stranger),
        "api_key:alpha",
        &["not that of a gateway"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_it_cannot_be_asked_is_a_wrong_argument() {
    let folder = folder(&rest("http://127.0.0.1:9000"));
    for wrong in [&["api_key:alpha"][..], &["api_key:alpha", "delete"], &[]] {
        let (status, out, _) = client(&folder, wrong).await;
        assert_eq!((status, &*out), (Some(2), ""), "{wrong:?}");
    }
    let empty = tempfile::tempdir().unwrap();
    let (status, _, err) = client(&empty, &["api_key:alpha", "show"]).await;
    assert_eq!(status, Some(2), "{err}");
}
