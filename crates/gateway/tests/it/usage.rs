//! `tidegate usage`: sums from access logs.

use std::path::Path;
use std::process::Command;

use http::{Request, Response};
use tempfile::TempDir;
use tidegate_testkit::body::{empty, full};
use tidegate_testkit::{Client, Upstream};

use crate::access_log_file::{lines, log};
use crate::kit::until;
use crate::support::TestGateway;

fn usage(arguments: &[&str], file: &Path) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = command.arg("usage").args(arguments).arg(file).output();
    let output = output.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.success(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// The log of a gateway, with costs that its answers name.
#[tokio::test]
async fn it_sums_what_a_gateway_has_logged() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("access.log");
    let upstream = Upstream::start(|request| async move {
        let used = request.uri().path()[1..].to_owned();
        let json = Response::builder().header("content-type", "application/json");
        json.body(full(format!("{{\"used\":{used}}}"))).unwrap()
    });
    let yaml = format!(
        "
secret: the same
trusted_proxies: [127.0.0.0/8]
clients: [{{ user_id: {{ header: X-User-Id }} }}]
plans: {{ gold: {{ members: [\"user_id:acme\"], it: {{ fixed_window: {{ limit: 1000, window: 31d }} }} }} }}
limits:
  it: {{ fixed_window: {{ limit: 50, window: 31d }}, cost: {{ response_json: used, reserve: 10 }} }}
routes:
  - {{ path: /**, upstream: \"{}\", limits: [it] }}
",
        upstream.url()
    );
    let fields =
        "[time, method, path, status, outcome, route, client, plan, limit, cost, bytes_out]";
    let log = log(&file, &format!("format: json, fields: {fields}"));
    let gateway = TestGateway::start(&format!("log: {{ {log} }}{yaml}")).await;
    let client = Client::new(gateway.address);
    for (user, used) in [
        ("acme", 70),
        ("acme", 5),
        ("other", 60),
        ("other", 1),
        ("a,\"b", 0),
    ] {
        let request = Request::get(format!("/{used}")).header("x-user-id", user);
        client.request(request.body(empty()).unwrap()).await;
    }
    until("five lines", async || {
        file.exists() && lines(&file).len() == 5
    })
    .await;
    gateway.stop().await;
    let (is_ok, csv, notes) = usage(&["--by", "client,plan", "--csv"], &file);
    let expected = "client,plan,admitted,refused,units,bytes
user_id:acme,gold,2,0,75,21
user_id:other,,1,1,60,11
\"user_id:a,\"\"b\",,1,0,0,10
";
    assert!(is_ok);
    assert_eq!((&*csv, &*notes), (expected, ""));
    let (_, table, _) = usage(&["--by", "limit"], &file);
    assert_eq!(
        table,
        "limit  admitted  refused  units  bytes
it            4        1    135     42
"
    );
    let (_, none, _) = usage(&["--until", "2026-01-01"], &file);
    assert_eq!(none, "client  admitted  refused  units  bytes\n");
}

/// Days are those of UTC, a time is in the span from `since` to before `until`, and what cannot be read is said.
#[test]
fn it_sums_by_days_and_within_a_span() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("access.log");
    let line = |time: &str, client: &str, outcome: &str, cost: &str| {
        format!(
            "{{\"timestamp\":\"{time}\",\"target\":\"access\",\"method\":\"GET\",\"path\":\"/\",\"status\":200,\"outcome\":\"{outcome}\",\"client\":\"{client}\"{cost},\"total_us\":0}}\n"
        )
    };
    let text = [
        line(
            "2026-10-31T23:59:59.999999Z",
            "ip:192.0.2.1",
            "forwarded",
            ",\"cost\":1",
        ),
        line(
            "2026-11-01T00:00:00.000000Z",
            "ip:192.0.2.1",
            "forwarded",
            ",\"cost\":2",
        ),
        line(
            "2026-11-01T10:00:00.000000Z",
            "ip:192.0.2.2",
            "limited",
            ",\"cost\":4",
        ),
        line(
            "2026-11-30T23:59:59.999999Z",
            "ip:192.0.2.2",
            "failed",
            ",\"cost\":8",
        ),
        line(
            "2026-12-01T00:00:00.000000Z",
            "ip:192.0.2.2",
            "forwarded",
            ",\"cost\":16",
        ),
    ];
    std::fs::write(&file, text.concat()).unwrap();
    let november = [
        "--since",
        "2026-11-01",
        "--until",
        "2026-12-01T00:00:00Z",
        "--csv",
    ];
    let (is_ok, csv, _) = usage(&november, &file);
    assert!(is_ok);
    assert_eq!(
        csv,
        "client,admitted,refused,units,bytes\nip:192.0.2.2,1,1,8,0\nip:192.0.2.1,1,0,2,0\n"
    );
    let (_, csv, _) = usage(&["--by", "month,day", "--csv"], &file);
    assert_eq!(
        csv,
        "month,day,admitted,refused,units,bytes
2026-12,2026-12-01,1,0,16,0
2026-11,2026-11-30,1,0,8,0
2026-11,2026-11-01,1,1,2,0
2026-10,2026-10-31,1,0,1,0
"
    );
    let without = text[1].replace(",\"cost\":2", "") + "{oops\n";
    std::fs::write(&file, without).unwrap();
    let (is_ok, _, notes) = usage(&[], &file);
    assert!(is_ok);
    assert!(notes.contains("warning: 1 lines cannot be read"), "{notes}");
    assert!(
        notes.contains("`cost` under `log.access.fields`"),
        "{notes}"
    );
    let (is_ok, _, error) = usage(&["--since", "november"], &file);
    assert!(!is_ok && error.contains("2026-11-01T12:00:00Z"), "{error}");
}
