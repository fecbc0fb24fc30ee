//! `tidegate demo`: whoever runs the lines that it prints sees what it promises.

use std::net::{SocketAddr, TcpListener};
use std::process::Command;

use tempfile::TempDir;
use tidegate_testkit::Process;

use crate::kit::{LONG, page, until};
use crate::status::status;

/// The demo on free ports, in a folder without any file.
fn demo(listen: &str) -> (TempDir, Process) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("demo").current_dir(folder.path());
    command
        .env("TIDEGATE_LISTEN", listen)
        .env("TIDEGATE_ADMIN", "127.0.0.1:0");
    (folder, Process::spawn(command))
}

/// What a printed line shows to whoever runs it, as the heads of the answers and what follows them.
async fn run(line: &str) -> Vec<String> {
    // Status and headers go to standard output, curl's progress elsewhere.
    let line = line.replace("curl -i", "curl -sS -i");
    let output = tokio::task::spawn_blocking(move || {
        let mut command = Command::new("sh");
        command
            .args(["-c", &line])
            .env("no_proxy", "*")
            .output()
            .unwrap()
    })
    .await
    .unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let answers = text.split("HTTP/1.1 ").filter(|answer| !answer.is_empty());
    answers.map(|answer| answer.to_lowercase()).collect()
}

/// A header of an answer that curl printed.
fn number(answer: &str, name: &str) -> u64 {
    let mut lines = answer.lines();
    let value = lines.find_map(|line| line.strip_prefix(&format!("{name}: ")));
    let value = value.unwrap_or_else(|| panic!("no {name} in {answer}"));
    value.trim().parse().unwrap()
}

#[tokio::test]
async fn the_printed_lines_show_what_they_promise() {
    let (_folder, mut process) = demo("127.0.0.1:0");
    process.wait_for_line("/metrics | grep", LONG).await;
    let printed = process.output();
    let lines: Vec<&str> = printed
        .iter()
        .filter(|line| line.starts_with("  ") && line.contains("curl"))
        .map(|line| line.trim())
        .collect();
    let [allowed, refused, other, counted] = lines[..] else {
        panic!("not four lines to try: {printed:?}");
    };

    let answers = run(allowed).await;
    assert_eq!(answers.len(), 1);
    assert!(answers[0].starts_with("200 "), "{answers:?}");
    let limit = number(&answers[0], "x-ratelimit-limit");
    assert_eq!(number(&answers[0], "x-ratelimit-remaining"), limit - 1);
    assert!(number(&answers[0], "x-ratelimit-reset") > 1_700_000_000);

    let answers = run(refused).await;
    let (last, first) = answers.split_last().unwrap();
    assert_eq!(first.len(), 3, "{answers:?}");
    for (answer, left) in first.iter().zip([2, 1, 0]) {
        assert!(answer.starts_with("200 "), "{answer}");
        assert_eq!(number(answer, "x-ratelimit-remaining"), left);
    }
    assert!(
        last.starts_with("429 ") && last.contains("rate_limit_exceeded"),
        "{last}"
    );
    assert_eq!(number(last, "retry-after"), 1_800, "{last}");

    let answers = run(other).await;
    assert!(answers[0].starts_with("200 "), "{answers:?}");
    let limit = number(&answers[0], "x-ratelimit-limit");
    assert_eq!(number(&answers[0], "x-ratelimit-remaining"), limit - 1);

    let counted = run(counted).await.concat();
    assert!(
        counted.contains("limit=\"otp-per-ip\",verdict=\"refused\",decided_by=\"store\"} 1\n"),
        "{counted}"
    );

    process.signal("TERM");
    assert_eq!(process.wait(LONG).await.code(), Some(0));
}

#[tokio::test]
async fn its_page_shows_who_is_greedy_and_who_guesses() {
    let (_folder, mut process) = demo("127.0.0.1:0");
    let line = process.wait_for_line("See who is limited", LONG).await;
    let (_, address) = line.split_once("http://").unwrap();
    let admin: SocketAddr = address.trim_end_matches('/').parse().unwrap();
    process.wait_for_line("/metrics | grep", LONG).await;
    let printed = process.output();
    let of = |manner: &str| -> Vec<String> {
        let lines = printed.iter().filter_map(|line| line.strip_suffix(manner));
        lines.map(|line| line.trim().to_owned()).collect()
    };
    assert_eq!(of(" polite").len(), 3, "{printed:?}");
    let mut limited = [of(" greedy"), of(" guesses keys")].concat();
    limited.sort();
    until("both are refused", async || {
        let status = status(admin).await;
        let refused = status.clients.start.refused.top.iter();
        let mut refused: Vec<_> = refused.map(|client| client.name.clone()).collect();
        refused.sort();
        assert!(
            refused.iter().all(|name| limited.contains(name)),
            "{refused:?}"
        );
        refused == limited
    })
    .await;
    let (_, metrics) = page(admin, "/metrics").await;
    let guesses = metrics
        .lines()
        .find_map(|line| line.strip_prefix("tidegate_unknown_api_keys_total "));
    assert!(guesses.unwrap().parse::<u64>().unwrap() > 30, "{metrics}");
    process.signal("TERM");
    assert_eq!(process.wait(LONG).await.code(), Some(0));
}

#[tokio::test]
async fn a_port_in_use_is_told_with_the_way_to_another() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let (_folder, mut process) = demo(&address.to_string());
    assert_eq!(process.wait(LONG).await.code(), Some(1));
    let line = process.wait_for_line("error: ", LONG).await;
    assert!(
        line.contains(&address.to_string()) && line.contains("in use"),
        "{line}"
    );
    assert!(
        line.contains("TIDEGATE_LISTEN") && line.contains("TIDEGATE_ADMIN"),
        "{line}"
    );
    assert!(
        !process.output().join("\n").contains("curl"),
        "there is nothing to try"
    );
}
