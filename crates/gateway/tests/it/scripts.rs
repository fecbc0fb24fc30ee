//! `tidegate scripts`: every printed script is loaded and run by the lines that the command prints.

use std::process::Command;

use tidegate_testkit::RedisServer;

use crate::support::commands::{ended, tidegate, written};

/// Limits of every algorithm and mode.
const YAML: &str = "
store: { redis: { url: \"redis://127.0.0.1:1\", gateways: 1 } }
secret: \"of the test alone, twenty bytes\"
limits:
  bucket: { token_bucket: { capacity: 20, refill: 10/s }, block: 1m }
  queue: { leaky_bucket: { queue: 20, drain: 10/s } }
  window: { fixed_window: { limit: 20, window: 1m } }
  day: { fixed_window: { limit: 20, window: 1d, zone: UTC } }
  log: { sliding_window_log: { limit: 20, window: 1m } }
  counter: { sliding_window_counter: { limit: 20, window: 1m } }
  running: { concurrency: { limit: 20 } }
  tokens: { token_bucket: { capacity: 20, refill: 1/s }, cost: { response_header: x-cost, reserve: 2 } }
  lent: { token_bucket: { capacity: 200, refill: 10/s }, mode: leased }
  summed: { sliding_window_counter: { limit: 20, window: 1m }, mode: synced }
routes:
  - { path: /a, upstream: \"http://127.0.0.1:9000\", limits: [bucket, queue, window, day, log, counter, running, tokens] }
  - { path: /b, upstream: \"http://127.0.0.1:9000\", limits: [lent, summed, window] }
";

#[tokio::test]
async fn every_script_runs_by_the_lines_that_are_printed() {
    let redis = RedisServer::start().await;
    let server = format!("redis-cli -p {}", redis.port());
    let (_folder, file) = written(YAML);
    let scripts = |arguments: &[&str]| {
        let mut command = tidegate(&["scripts"]);
        ended(command.args(arguments).arg("-c").arg(&file))
    };
    let (status, list, _) = scripts(&[]);
    assert_eq!(status, Some(0));
    let names: Vec<(&str, &str)> = list
        .lines()
        .filter_map(|line| line.split_once("  "))
        .map(|(sha1, name)| (name, sha1))
        .collect();
    let tasks: Vec<&str> = names
        .iter()
        .filter_map(|(name, _)| name.split(':').next())
        .collect();
    for task in [
        "decide",
        "decide_many",
        "look",
        "hold",
        "lease",
        "exchange",
        "forget",
        "counts",
    ] {
        assert!(tasks.contains(&task), "{task} is missing: {list}");
    }
    for (name, sha1) in names {
        let (status, text, lines) = scripts(&[name]);
        assert_eq!(status, Some(0), "{name}: {lines}");
        let line = |word: &str| {
            let line = lines.lines().find_map(|line| line.strip_prefix(word));
            line.unwrap_or_else(|| panic!("{word}: {lines}")).trim()
        };
        assert_eq!(line("SHA-1:"), sha1);
        let program = env!("CARGO_BIN_EXE_tidegate");
        let load = line("load:").replace("redis-cli", &server).replace(
            "tidegate scripts",
            &format!("{program} scripts -c {}", file.display()),
        );
        assert_eq!(shell(&load), sha1, "{name}");
        let answer = shell(&line("run:").replace("redis-cli", &server));
        assert!(
            !answer.is_empty() && !answer.contains("ERR"),
            "{name}: {answer}"
        );
        // Most scripts return the time first, and 1 for success or an admitted request. `hold` ends the hold that `decide` took.
        let second = answer.lines().nth(1).unwrap_or_default();
        let expected = match name.split(':').next() {
            Some("decide" | "look" | "hold" | "lease" | "exchange" | "forget") => "1",
            _ => second,
        };
        assert_eq!(second, expected, "{name}: {answer}");
        assert!(text.ends_with('\n'), "{name}");
    }
    let (status, _, error) = scripts(&["decide:nothing"]);
    assert_eq!(status, Some(2));
    assert!(
        error.contains("no limit of this configuration needs"),
        "{error}"
    );
}

/// Runs a line of a shell, and returns its output without the last line break.
fn shell(line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout)
        .unwrap()
        .trim_end()
        .to_owned()
}
