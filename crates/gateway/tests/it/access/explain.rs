//! `tidegate explain` names the line of the configuration that denies or exempts.

use crate::callers::listed;
use crate::support::commands::{explained, written};

fn explain(arguments: &[&str]) -> Vec<String> {
    let yaml = format!(
        "trusted_proxies: [127.0.0.1]
clients: [{{ api_key: {{ keys: [{}] }} }}, {{ user_id: {{}} }}]
exempt:
  - 10.0.0.0/8
deny: [192.0.2.0/24]
deny_file: denied.txt
limits:
  guard: {{ fixed_window: {{ limit: 9, window: 1h }}, per: [ip] }}
  own: {{ fixed_window: {{ limit: 9, window: 1h }}, exempt: [\"user_id:7\"] }}
always: [guard]
plans: {{ gold: {{ members: [\"user_id:8\"], own: unlimited }} }}
routes:
  - {{ path: /key, upstream: http://127.0.0.1:9000, limits: [own], require: api_key }}
  - {{ path: /office, upstream: http://127.0.0.1:9000, limits: [own], allow: [172.16.0.0/12] }}
  - {{ path: /**, upstream: http://127.0.0.1:9000, limits: [own], deny: [\"user_id:66\"] }}
",
        listed("alpha")
    );
    let (folder, _file) = written(&yaml);
    std::fs::write(folder.path().join("denied.txt"), "# bad\n198.51.100.7\n").unwrap();
    explained(&folder, &[&["GET"], arguments].concat())
}

#[track_caller]
fn has(arguments: &[&str], expected: &[&str]) {
    let lines = explain(arguments);
    for expected in expected {
        assert!(
            lines.iter().any(|line| line == expected),
            "{expected}: {lines:#?}"
        );
    }
}

#[test]
fn it_names_the_line_that_exempts_or_denies() {
    has(
        &["/", "--peer", "10.1.2.3"],
        &[
            "limit:    guard, not charged, for the client is exempt: 10.0.0.0/8 (gateway.yaml:4:5)",
            "limit:    own, not charged, for the client is exempt: 10.0.0.0/8 (gateway.yaml:4:5)",
        ],
    );
    let lines = explain(&["/", "-H", "X-User-Id: 7"]);
    let exempt = "limit:    own, not charged, for the client is exempt: user_id:7 (gateway.yaml:9:";
    assert!(
        lines.iter().any(|line| line.starts_with(exempt)),
        "{lines:#?}"
    );
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("limit:    guard, a ")),
        "{lines:#?}"
    );
    for (arguments, expected) in [
        (
            &["/", "--peer", "192.0.2.5"][..],
            "answer:   403, for `deny` lists 192.0.2.0/24 (gateway.yaml:5:8); nothing is charged",
        ),
        (
            &["/", "--peer", "198.51.100.7"],
            "answer:   403, for `deny` lists 198.51.100.7 (denied.txt:2); nothing is charged",
        ),
        (
            &["/office", "--peer", "203.0.113.1"],
            "answer:   403, for the client is not in `allow` (gateway.yaml:14:77); nothing is charged",
        ),
        (
            &["/key", "--peer", "203.0.113.1"],
            "answer:   401, for `require: api_key` is not met; only what is under `always` is charged",
        ),
    ] {
        has(arguments, &[expected]);
    }
    let lines = explain(&["/", "-H", "X-User-Id: 66"]);
    let denied = "answer:   403, for `deny` lists user_id:66 (gateway.yaml:15:";
    assert!(
        lines.iter().any(|line| line.starts_with(denied)),
        "{lines:#?}"
    );
    assert!(
        !lines.iter().any(|line| line.starts_with("limit:")),
        "{lines:#?}"
    );
}

#[test]
fn it_names_the_plan_of_a_member() {
    has(
        &["/", "-H", "X-User-Id: 8"],
        &["plan:     gold", "limit:    own, unlimited under this plan"],
    );
}
