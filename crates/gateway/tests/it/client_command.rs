//! `tidegate client`: what is printed of one client's budgets, and what when there is no gateway to ask.

use tempfile::TempDir;
use tidegate_testkit::{RedisServer, Upstream};

use crate::callers::listed;
use crate::kit::{get, ready};
use crate::support::TestGateway;
use crate::support::commands::{Ended, ended_beside, tidegate, written};

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
    written(yaml).0
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
async fn client(folder: &TempDir, arguments: &[&str]) -> Ended {
    client_with(folder, arguments, &[]).await
}

/// As [`client`], with these variables in its environment.
async fn client_with(folder: &TempDir, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = tidegate(&["client"]);
    command.args(arguments).current_dir(folder.path());
    command.envs(variables.iter().copied());
    ended_beside(command).await
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
        let end = "shared with others: all\nAPI key sha256:";
        assert!(out.contains(end), "{out}");
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

/// From another machine: by the port's URL and the token alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_needs_no_configuration_where_the_port_is_named() {
    const VARIABLE: &str = "TIDEGATE_ADMIN_TOKEN";
    let admin = format!("{{ address: \"127.0.0.1:0\", token: \"{TOKEN}\" }}");
    let mut running = Running::start(&admin).await;
    let port = running.gateway.as_ref().unwrap().admin.port();
    let url = format!("http://127.0.0.1:{port}");
    let asked = ["api_key:alpha", "show", "--admin", &url];
    let empty = tempfile::tempdir().unwrap();
    let broken = folder("limits: { this is no configuration");
    let needs_variables = folder(&format!(
        "secret: \"${{TIDEGATE_NOT_SET}}\"\n{}",
        rest(&url)
    ));
    for folder in [&empty, &broken, &needs_variables] {
        let (status, out, err) = client_with(folder, &asked, &[(VARIABLE, TOKEN)]).await;
        assert_eq!((status, &*err), (Some(0), ""));
        assert!(
            out.starts_with("api_key:alpha, of the plan gold\n"),
            "{out}"
        );
        // A file may end with a line end.
        std::fs::write(folder.path().join("token"), format!("{TOKEN}\n")).unwrap();
        let by_file = [&asked[..], &["--token-file", "token"]].concat();
        let (status, out, err) = client_with(folder, &by_file, &[(VARIABLE, "other")]).await;
        assert_eq!((status, &*err), (Some(0), ""));
        assert!(out.starts_with("api_key:alpha"), "{out}");
        // Without a token, and with a wrong one.
        for variables in [&[][..], &[(VARIABLE, "hunter2")]] {
            let (status, _, err) = client_with(folder, &asked, variables).await;
            assert_eq!(status, Some(1), "{err}");
            assert!(err.contains("401") && err.contains(VARIABLE), "{err}");
            assert!(!err.contains("hunter2"), "{err}");
        }
    }
    // The token of a configuration that can be read is sent, as `top` does.
    let (status, _, err) = client(&running.folder, &asked).await;
    assert_eq!((status, &*err), (Some(0), ""));
    for (wrong, word) in [
        (vec!["--admin", "127.0.0.1:9901"], "http://HOST:PORT"),
        (vec!["--admin", &url, "--token-file", "missing"], "missing"),
        (vec!["--admin", &url, "--token-file", "."], "."),
    ] {
        let arguments = [&["api_key:alpha", "show"][..], &wrong].concat();
        let (status, _, err) = client(&empty, &arguments).await;
        assert_eq!(status, Some(2), "{err}");
        assert!(err.contains(word), "{err}");
    }
    for variables in [
        [(VARIABLE, "hunter2 hunter3")],
        [(VARIABLE, "\u{1}hunter2")],
    ] {
        let (status, _, err) = client_with(&empty, &asked, &variables).await;
        assert_eq!(status, Some(2), "{err}");
        assert!(err.contains(VARIABLE) && !err.contains("hunter2"), "{err}");
    }
    running.stop().await;
}

/// In an outage of Redis it says what the gateway knows, and that it is that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_it_shows_what_the_gateway_knows_by_itself() {
    let (redis, upstream) = (RedisServer::start().await, Upstream::ok());
    let gateway = TestGateway::start(&format!(
        "
store: {{ redis: {{ url: \"{}\", timeout: 5s, gateways: 2 }} }}
limits:
  shared: {{ fixed_window: {{ limit: 8, window: 31d }} }}
  lent: {{ fixed_window: {{ limit: 900, window: 31d }}, mode: leased }}
  alone: {{ fixed_window: {{ limit: 9, window: 31d }}, mode: local }}
  open: {{ fixed_window: {{ limit: 9, window: 31d }}, on_failure: open }}
  closed: {{ fixed_window: {{ limit: 1, window: 31d }}, on_failure: closed }}
routes:
  - {{ path: /all, upstream: \"{1}\", limits: [shared, lent, alone, open] }}
  - {{ path: /closed, upstream: \"{1}\", limits: [closed] }}
",
        redis.url(),
        upstream.url()
    ))
    .await;
    let asking = tidegate_testkit::Client::new(gateway.address);
    for (path, status) in [
        ("/all", 200),
        ("/all", 200),
        ("/closed", 200),
        ("/closed", 429),
    ] {
        assert_eq!(get(&asking, path, &[]).await, status);
    }
    let url = format!("http://{}", gateway.admin);
    let asked = ["ip:127.0.0.1", "show", "--admin", &url];
    let empty = tempfile::tempdir().unwrap();
    let (status, out, _) = client(&empty, &asked).await;
    assert_eq!(status, Some(0));
    assert!(!out.contains("Redis"), "{out}");
    redis.stop();
    ready(gateway.admin, 503).await;
    let (status, out, err) = client(&empty, &asked).await;
    assert_eq!((status, &*err), (Some(0), ""));
    let head = "ip:127.0.0.1\nthere is no connection to Redis: ";
    assert!(out.starts_with(head), "{out}");
    assert!(
        out.contains(": this is what this gateway knows by itself\n"),
        "{out}"
    );
    let rows = words(&out);
    let row = |name| rows.iter().find(|row| row[0] == name).unwrap();
    // Half of what Redis said was left, of half of the quota.
    assert_eq!(row("shared")[3..5], ["3", "4"]);
    assert_eq!(row("alone")[3..5], ["7", "9"]);
    assert_eq!(row("open")[3..], ["-", "-", "-", "now"]);
    assert_eq!(row("closed")[3..], ["-", "-", "-", "with Redis"]);
    for line in [
        "\ndecided here, by this gateway's share: shared, lent\n",
        "\nnot limited without Redis: open\n",
        "\nanswered 503 without Redis: closed\n",
        "\nborrowed from Redis, and spent first: lent, ",
        "\nRedis said last: shared, 6 left, ",
        "\nRedis said last: closed, refused for ",
        "\ncounted by this gateway alone: alone\n",
    ] {
        assert!(out.contains(line), "{line} is not in:\n{out}");
    }
    let (status, _, err) = client(&empty, &["ip:127.0.0.1", "reset", "--admin", &url]).await;
    assert_eq!(status, Some(1), "{err}");
    assert!(err.contains("503"), "{err}");
    gateway.stop().await;
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
