//! Limits that a reload starts anew, because their keys changed: said before, in the log, and in a metric.

use std::path::Path;
use std::process::Command;

use tidegate_testkit::Process;

use crate::kit::{LONG, page};
use crate::support::logged_address;

/// A configuration whose admin port is `admin`, with this limit.
fn config(admin: &str, limit: &str) -> String {
    format!(
        "
listen: 127.0.0.1:0
admin: {admin}
log: {{ format: json }}
max_connections: 100
limits:
  daily: {{ {limit} }}
  other: {{ token_bucket: {{ capacity: 5, refill: 1/s }} }}
routes:
  - {{ path: /**, upstream: http://127.0.0.1:9, limits: [daily, other] }}
"
    )
}

const DAY: &str = "fixed_window: { limit: 9, window: 1d }";
const HALF: &str = "fixed_window: { limit: 9, window: 12h }";

/// Standard output of `tidegate check --running`.
fn check(file: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = command
        .args(["check", "--running", "-c"])
        .arg(file)
        .output();
    let output = output.unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    said
}

#[tokio::test]
async fn a_changed_window_is_said_before_the_reload_and_after() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    std::fs::write(&file, config("127.0.0.1:0", DAY)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["run", "-c"]).arg(&file);
    let process = Process::spawn(command);
    let admin = logged_address(&process.wait_for_line("admin port", LONG).await);

    let next = folder.path().join("next.yaml");
    std::fs::write(&next, config(&admin.to_string(), DAY)).unwrap();
    let said = check(&next);
    let takes = format!("the gateway at {admin} would take it by a reload");
    assert!(
        said.contains("0 warnings\n") && said.contains(&takes),
        "{said}"
    );
    std::fs::write(&next, config(&admin.to_string(), HALF)).unwrap();
    let said = check(&next);
    let why = "limit `daily` anew, so that clients have its full quota again: \
        `fixed_window` of 1day becomes `fixed_window` of 12h";
    assert!(said.contains(why) && said.contains("1 warning\n"), "{said}");

    let (_, before) = page(admin, "/metrics").await;
    assert!(!before.contains("limits_started_anew_total{"), "{before}");
    std::fs::write(&file, config("127.0.0.1:0", HALF)).unwrap();
    let line = process.wait_for_line("the reload starts", LONG).await;
    assert!(line.contains(why) && line.contains("WARN"), "{line}");
    process.wait_for_line("configuration reloaded", LONG).await;
    let (_, metrics) = page(admin, "/metrics").await;
    let counted = "tidegate_limits_started_anew_total{limit=\"daily\"} 1\n";
    assert!(metrics.contains(counted), "{metrics}");
    assert!(
        !metrics.contains("limits_started_anew_total{limit=\"other\"}"),
        "{metrics}"
    );
}

/// What only a restart changes is said before, without the secrets in it.
#[tokio::test]
async fn check_says_that_a_reload_would_be_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    let more = |secret: &str, password: &str, timeout: &str| {
        let url = format!("redis://:{password}@127.0.0.1:1");
        format!(
            "secret: {secret}
store: {{ redis: {{ url: \"{url}\", timeout: {timeout}, on_failure: open }} }}
"
        )
    };
    let secret = "hunter2-and-25-more-characters";
    let running = config("127.0.0.1:0", DAY) + &more(secret, "hunter2", "1s");
    std::fs::write(&file, running).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["run", "-c"]).arg(&file);
    let process = Process::spawn(command);
    let admin = logged_address(&process.wait_for_line("admin port", LONG).await);

    let next = folder.path().join("next.yaml");
    let start = config(&admin.to_string(), DAY);
    let quiet = start.replace("format: json", "format: json, access: false");
    let keep = more(secret, "hunter2", "1s");
    let other_secrets = more("another-and-25-more-characters", "hunter3", "1s");
    for (yaml, refused) in [
        (format!("{start}{keep}"), &[][..]),
        (format!("{start}{}", keep.replace("open", "closed")), &[]),
        // Nothing of a secret is told, not even that it is another.
        (format!("{start}{other_secrets}"), &[]),
        (
            format!("{start}{}", more(secret, "hunter2", "2s")),
            &["`store`"],
        ),
        (
            format!("{start}{}", keep.replace("secret:", "# secret:")),
            &["`secret`"],
        ),
        (
            format!("{quiet}{}", "store: memory\noverrides_file: o.jsonl\n"),
            &["`log`", "`overrides_file`", "`secret`", "`store`"],
        ),
    ] {
        std::fs::write(&next, yaml).unwrap();
        let said = check(&next);
        let lines = said
            .lines()
            .filter_map(|line| line.strip_prefix("warning: a reload cannot change "));
        let keys: Vec<_> = lines.map(|line| line.split(',').next().unwrap()).collect();
        assert_eq!(keys, refused, "{said}");
    }
    let (_, shown) = page(admin, "/config").await;
    assert!(
        !shown.contains("hunter") && shown.contains("\"fixed\""),
        "{shown}"
    );
}

#[test]
fn check_says_that_no_gateway_runs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    // Nobody listens on a port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    std::fs::write(&file, config(&address, DAY)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = command
        .args(["check", "--running", "-c"])
        .arg(&file)
        .output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("no gateway answers on its admin port"),
        "{said}"
    );
}
