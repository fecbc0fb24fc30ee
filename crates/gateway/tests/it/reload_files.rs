//! What makes a running gateway load its configuration anew, and what it refuses, by the real binary.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use tidegate_testkit::{Client, Process, RedisServer, Upstream};

use crate::kit::{LONG, sample, shown, told, until};
use crate::support::commands::tidegate;
use crate::support::{GatewayProcess, logged_address};

const TAKEN: &str = "configuration reloaded";
const REFUSED: &str = "configuration rejected";

fn limited(upstream: &Upstream, limit: u64) -> String {
    let url = upstream.url();
    format!(
        "limits: {{ it: {{ fixed_window: {{ limit: {limit}, window: 31d }} }} }}
routes: [{{ path: /**, upstream: \"{url}\", limits: [it] }}]
"
    )
}

#[tokio::test]
async fn a_hangup_reloads_and_a_bad_file_changes_nothing() {
    let upstream = Upstream::ok();
    let mut gateway = GatewayProcess::start(&limited(&upstream, 5)).await;
    let client = Client::new(gateway.address);
    assert_eq!(told(&client.get("/").await), shown(200, 5, 4));
    gateway.write(&limited(&upstream, 7));
    gateway.process.signal("HUP");
    gateway.process.wait_for_line(TAKEN, LONG).await;
    assert_eq!(told(&client.get("/").await), shown(200, 7, 5));
    gateway.write(&limited(&upstream, 9).replace(", window", ", windows"));
    gateway.process.signal("HUP");
    let line = gateway.process.wait_for_line(REFUSED, LONG).await;
    let file = gateway.file();
    // The text that a start would end with, in one line and without the excerpt.
    let place = format!(
        "{}:4:43: unknown key `windows`; did you mean",
        file.display()
    );
    assert!(line.contains(&place), "{line}");
    assert!(line.contains("did you mean `window`?"), "{line}");
    assert_eq!(told(&client.get("/").await), shown(200, 7, 4));
    for outcome in ["taken", "refused"] {
        let name = format!("tidegate_config_reloads_total{{outcome=\"{outcome}\"}}");
        assert_eq!(sample(gateway.admin, &name).await, 1, "{outcome}");
    }
    assert_eq!(client.connections(), 1);
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.wait(LONG).await.code(), Some(0));
}

/// Waits until a client is told of this limit.
async fn becomes(client: &Client, limit: u64) {
    until(&format!("the limit is {limit}"), async || {
        told(&client.get("/").await).1 == Some(limit)
    })
    .await;
}

#[tokio::test]
async fn a_changed_file_is_seen() {
    let upstream = Upstream::ok();
    let mut gateway = GatewayProcess::start(&limited(&upstream, 5000)).await;
    let client = Client::new(gateway.address);
    // In one step, and in place.
    gateway.write(&limited(&upstream, 7000));
    becomes(&client, 7000).await;
    let text = fs::read_to_string(gateway.file()).unwrap();
    fs::write(gateway.file(), text.replace("7000", "90000")).unwrap();
    becomes(&client, 90000).await;
    // One that is gone is refused like any other, once.
    fs::remove_file(gateway.file()).unwrap();
    let line = gateway.process.wait_for_line(REFUSED, LONG).await;
    assert!(line.contains("there is no such file"), "{line}");
    becomes(&client, 90000).await;
    gateway.process.kill().await;
}

/// A configuration that was refused for its key file is in force as soon as that file is good.
#[tokio::test]
async fn a_refused_reload_is_tried_again_when_a_file_that_it_names_changes() {
    let upstream = Upstream::ok();
    let mut gateway = GatewayProcess::start(&limited(&upstream, 5000)).await;
    let client = Client::new(gateway.address);
    let keys = gateway.file().with_file_name("keys.yaml");
    fs::write(&keys, "- { name: acme }\n").unwrap();
    let clients = "clients: [{ api_key: { keys_file: keys.yaml } }, { ip: {} }]\n";
    gateway.write(&format!("{clients}{}", limited(&upstream, 7000)));
    let line = gateway.process.wait_for_line(REFUSED, LONG).await;
    assert!(line.contains("this file with keys is refused"), "{line}");
    // Other permissions may make a file readable.
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o640)).unwrap();
    gateway.process.wait_for_nth_line(REFUSED, 2, LONG).await;
    becomes(&client, 5000).await;
    let hash = "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
    fs::write(&keys, format!("- {{ name: acme, hash: \"{hash}\" }}\n")).unwrap();
    becomes(&client, 7000).await;
    gateway.process.kill().await;
}

/// As Kubernetes does it: the file is a link into a folder that is a link itself, and only the latter changes.
#[tokio::test]
async fn a_link_that_comes_to_point_elsewhere_is_a_change() {
    let upstream = Upstream::ok();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for (data, limit) in [("first", 5000), ("second", 7000)] {
        fs::create_dir(path(data)).unwrap();
        let head = "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nlog: { format: json }\n";
        let yaml = format!("{head}{}", limited(&upstream, limit));
        fs::write(path(data).join("gateway.yaml"), yaml).unwrap();
    }
    symlink("first", path("data")).unwrap();
    symlink("data/gateway.yaml", path("gateway.yaml")).unwrap();
    let mut command = tidegate(&["-c"]);
    command.arg(path("gateway.yaml"));
    let mut process = Process::spawn(command);
    let line = process.wait_for_line("\"listening\"", LONG).await;
    let client = Client::new(logged_address(&line));
    becomes(&client, 5000).await;
    symlink("second", path("next")).unwrap();
    fs::rename(path("next"), path("data")).unwrap();
    becomes(&client, 7000).await;
    assert_eq!(client.connections(), 1);
    process.kill().await;
}

/// Where state is kept, under which secret, and where the log goes: only a restart changes these.
#[tokio::test]
async fn what_a_reload_cannot_change_is_refused_by_its_place() {
    let upstream = Upstream::ok();
    let redis = RedisServer::start().await;
    let store = |more: &str| format!("store: {{ redis: {{ url: \"{}\"{more} }} }}\n", redis.url());
    let limits = limited(&upstream, 5);
    let yaml = format!("{}secret: hunter2\n{limits}", store(""));
    let mut gateway = GatewayProcess::start(&yaml).await;
    let refused = [
        (
            limits.clone(),
            "gateway.yaml: a reload cannot change `store`",
        ),
        (
            format!("{}secret: hunter2\n{limits}", store(", timeout: 30ms")),
            "gateway.yaml:4:8: a reload cannot change `store`",
        ),
        (
            format!("{}secret: hunter3\n{limits}", store("")),
            "gateway.yaml:5:9: a reload cannot change `secret`",
        ),
        (yaml.replace("5, window", "6, window"), TAKEN),
        // What limits are by default is theirs.
        (
            format!(
                "{}secret: hunter2\n{limits}",
                store(", on_failure: closed, timeout: 25ms")
            ),
            TAKEN,
        ),
    ];
    let mut seen = [0, 0];
    for (text, expected) in refused {
        gateway.write(&text);
        gateway.process.signal("HUP");
        let (told, nth) = match expected {
            TAKEN => (TAKEN, 1),
            _ => (REFUSED, 0),
        };
        seen[nth] += 1;
        let line = gateway
            .process
            .wait_for_nth_line(told, seen[nth], LONG)
            .await;
        assert!(line.contains(expected), "{expected} is not in {line}");
        assert!(!line.contains("hunter"), "{line}");
    }
    for (before, after, expected) in [
        (
            "admin: 127.0.0.1:0",
            "admin: 127.0.0.1:1",
            "gateway.yaml:2:8: a reload cannot change the address of `admin`",
        ),
        ("level: info", "level: warn", "a reload cannot change `log`"),
    ] {
        gateway.write(&yaml);
        let text = fs::read_to_string(gateway.file()).unwrap();
        fs::write(gateway.file(), text.replace(before, after)).unwrap();
        gateway.process.signal("HUP");
        seen[0] += 1;
        let line = gateway
            .process
            .wait_for_nth_line(REFUSED, seen[0], LONG)
            .await;
        assert!(line.contains(expected), "{expected} is not in {line}");
    }
    gateway.process.kill().await;
}
