//! Limits that a reload starts anew, because their keys changed: said before, in the log, and in a metric.

use std::net::SocketAddr;
use std::path::PathBuf;

use tempfile::TempDir;
use tidegate_testkit::{Port, Process};

use crate::kit::{LONG, page, sample, sample_if_any};
use crate::support::commands::{checked_running, ended, tidegate, written};
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

/// Runs a gateway by this configuration. Returns its folder, file, process and admin port.
async fn running(yaml: &str) -> (TempDir, PathBuf, Process, SocketAddr) {
    let (folder, file) = written(yaml);
    let mut command = tidegate(&["run", "-c"]);
    command.arg(&file);
    let process = Process::spawn(command);
    let admin = logged_address(&process.wait_for_line("admin port", LONG).await);
    (folder, file, process, admin)
}

#[tokio::test]
async fn a_changed_window_is_said_before_the_reload_and_after() {
    let (folder, file, process, admin) = running(&config("127.0.0.1:0", DAY)).await;
    let next = folder.path().join("next.yaml");
    std::fs::write(&next, config(&admin.to_string(), DAY)).unwrap();
    let said = checked_running(&next);
    let takes = format!("the gateway at {admin} would take it by a reload");
    assert!(
        said.contains("0 warnings\n") && said.contains(&takes),
        "{said}"
    );
    std::fs::write(&next, config(&admin.to_string(), HALF)).unwrap();
    let said = checked_running(&next);
    let why = "limit `daily` anew, so that clients have its full quota again: \
        `fixed_window` of 1day becomes `fixed_window` of 12h";
    assert!(said.contains(why) && said.contains("1 warning\n"), "{said}");

    let (_, before) = page(admin, "/metrics").await;
    assert!(!before.contains("limits_started_anew_total{"), "{before}");
    std::fs::write(&file, config("127.0.0.1:0", HALF)).unwrap();
    let line = process.wait_for_line("the reload starts", LONG).await;
    assert!(line.contains(why) && line.contains("WARN"), "{line}");
    process.wait_for_line("configuration reloaded", LONG).await;
    let counted = "tidegate_limits_started_anew_total{limit=\"daily\"}";
    assert_eq!(sample(admin, counted).await, 1);
    let other = counted.replace("daily", "other");
    assert_eq!(sample_if_any(admin, &other).await, None);
}

/// What only a restart changes is said before, without the secrets in it.
#[tokio::test]
async fn check_says_that_a_reload_would_be_refused() {
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
    let (folder, _file, _process, admin) = self::running(&running).await;
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
        let said = checked_running(&next);
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
    let nobody = Port::reserve();
    let (_folder, file) = written(&config(&nobody.addr().to_string(), DAY));
    let (status, _, said) = ended(tidegate(&["check", "--running", "-c"]).arg(&file));
    assert_eq!(status, Some(1));
    assert!(
        said.contains("no gateway answers on its admin port"),
        "{said}"
    );
}
