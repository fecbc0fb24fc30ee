//! The program that runs: its version in all places, the file that it reads, its health, and what packages make of its arguments.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tidegate_testkit::Process;

use crate::kit::{LONG, page, page_json};
use crate::support::GatewayProcess;
use crate::support::commands::{self, tidegate, written};

const ROUTES: &str = "routes: [{ path: /**, upstream: http://127.0.0.1:9000 }]\n";

/// Status and both outputs of a command that ends by itself.
fn ended(command: &mut Command) -> (Option<i32>, String) {
    let (status, out, err) = commands::ended(command);
    (status, out + &err)
}

#[test]
fn the_version_is_that_of_the_changelogs_head() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../CHANGELOG.md");
    let text = std::fs::read_to_string(file).unwrap();
    let head = text.lines().find_map(|line| line.strip_prefix("## "));
    let version = head.unwrap().split(' ').next().unwrap();
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_commit_and_profile_are_the_same_everywhere() {
    let (status, printed) = ended(&mut tidegate(&["--version"]));
    assert_eq!(status, Some(0));
    let build = printed.trim_end().strip_prefix("tidegate ").unwrap();
    let (version, rest) = build.split_once(" (commit ").unwrap();
    let (commit, rest) = rest.split_once(", profile ").unwrap();
    let profile = rest.strip_suffix(')').unwrap();
    assert_eq!(version, env!("CARGO_PKG_VERSION"));

    let gateway = GatewayProcess::start(ROUTES).await;
    let (_, metrics) = page(gateway.admin, "/metrics").await;
    let row = format!(
        "tidegate_build_info{{version=\"{version}\",commit=\"{commit}\",profile=\"{profile}\","
    );
    assert!(metrics.contains(&row), "{row}");
    let config = page_json(gateway.admin, "/config").await;
    for (key, value) in [
        ("program", version),
        ("commit", commit),
        ("profile", profile),
    ] {
        assert_eq!(config[key], value, "{config}");
    }
    // A file that names the port, because the gateway's own asks for any.
    let (_folder, file) = written(&format!("admin: \"{}\"\n{ROUTES}", gateway.admin));
    let (status, text) = ended(tidegate(&["check", "--running", "-c"]).arg(&file));
    assert_eq!(status, Some(0), "{text}");
    let line = format!("running: tidegate {build}, with configuration ");
    assert!(text.contains(&line), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_is_asked_of_the_admin_port() {
    let mut gateway = GatewayProcess::start(ROUTES).await;
    let url = format!("http://{}", gateway.admin);
    let health = |more: &[&str]| ended(&mut tidegate(&[&["health"], more].concat()));
    assert_eq!(health(&["--admin", &url]), (Some(0), "ok\n".to_owned()));
    let (status, text) = health(&["--admin", &url, "--ready"]);
    assert_eq!(status, Some(0), "{text}");
    let (_folder, file) = written(&format!("admin: \"{}\"\n{ROUTES}", gateway.admin));
    let (status, text) = health(&["-c", file.to_str().unwrap()]);
    assert_eq!(status, Some(0), "{text}");
    // A file that is wrong on disk is no failure of the gateway.
    std::fs::write(&file, "limits: [").unwrap();
    let (status, text) = health(&["-c", file.to_str().unwrap(), "--admin", &url]);
    assert_eq!(status, Some(0), "{text}");
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.wait(LONG).await.code(), Some(0));
    let (status, text) = health(&["--admin", &url]);
    assert_eq!(status, Some(1), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_variable_names_the_file_and_the_start_says_which_was_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("other.yaml");
    let ports = "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nlog: { format: json }\n";
    std::fs::write(&file, format!("{ports}{ROUTES}")).unwrap();
    let mut command = tidegate(&[]);
    command.env("TIDEGATE_CONFIG", &file).current_dir("/");
    let mut process = Process::spawn(command);
    let line = process.wait_for_line("configuration loaded", LONG).await;
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["file"], file.to_str().unwrap());
    assert_eq!(line["version"], env!("CARGO_PKG_VERSION"));
    process.wait_for_line("admin port", LONG).await;
    process.signal("TERM");
    assert_eq!(process.wait(LONG).await.code(), Some(0));
}

#[test]
fn no_color_leaves_the_log_on_a_terminal_plain() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    // The log has lines before the port is found in use, which ends the process.
    let (_folder, file) = written(&format!("listen: \"{address}\"\n{ROUTES}"));
    let run = format!(
        "{} run -c {}",
        env!("CARGO_BIN_EXE_tidegate"),
        file.display()
    );
    let log = |value: Option<&str>| {
        let mut command = Command::new("script");
        command
            .args(["-qec", &run, "/dev/null"])
            .env_remove("NO_COLOR");
        command.envs(value.map(|value| ("NO_COLOR", value)));
        let (_, text) = ended(&mut command);
        assert!(text.contains("configuration loaded"), "{text}");
        text
    };
    assert!(log(None).contains("\u{1b}["));
    assert!(log(Some("")).contains("\u{1b}["));
    assert!(!log(Some("1")).contains("\u{1b}["));
}

#[test]
fn completions_and_manual_pages_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let (status, text) = ended(&mut tidegate(&["completions", shell]));
        assert_eq!(status, Some(0), "{text}");
        assert!(
            text.contains("explain") && text.contains("running"),
            "{shell}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let (status, text) = ended(tidegate(&["man"]).arg(folder.path()));
    assert_eq!((status, &*text), (Some(0), ""));
    for name in ["tidegate.1", "tidegate-run.1", "tidegate-check.1"] {
        let page = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(page.contains(".TH"), "{name}: {page}");
    }
}
