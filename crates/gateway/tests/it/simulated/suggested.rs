//! Quotas that are suggested, clients that come again, and the page.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use super::edges::Folder;
use super::{report, simulate};
use crate::support::commands::{ended, tidegate};

/// Requests of several clients with times in microseconds, some in bursts.
fn log() -> String {
    let mut random = super::Random(7);
    let mut at = 1_795_000_000_000_000_u64;
    let mut log = String::new();
    for nth in 0..3_000 {
        at += random.below(if nth % 50 < 20 { 2_000 } else { 90_000 });
        // The first client sends a third of all.
        let client = random.below(30).saturating_sub(9);
        log.push_str(&format!(
            "{{\"ts\":{at},\"ip\":\"192.0.2.{client}\",\"url\":\"/\",\"verb\":\"GET\"}}\n"
        ));
    }
    log
}

const MAP: &str = "time=$.ts,peer=$.ip,path=$.url,method=$.verb";

fn replay(arguments: &[&str], config: &Path, log: &Path) -> Value {
    report(&[&["--map", MAP], arguments].concat(), config, log)
}

/// The suggestion, put in force: it refuses as many requests and clients as it said.
#[test]
fn a_suggested_quota_refuses_what_was_predicted() {
    let folder = Folder::new();
    let log = folder.write("app.log", &log());
    for limit in [
        "token_bucket: { capacity: 5, refill: 2/s }",
        "leaky_bucket: { queue: 40, drain: 10/s, nodelay: true }",
        "fixed_window: { limit: 7, window: 2s }",
        "sliding_window_log: { limit: 3, window: 5s }",
        "sliding_window_counter: { limit: 90, window: 10s }",
        "fixed_window: { limit: 2, window: 1d, zone: Europe/Berlin }",
    ] {
        for untouched in ["100%", "80%"] {
            let config = folder.limited(limit);
            let report = replay(&[&format!("--suggest={untouched}")], &config, &log);
            let suggested = &report["suggested"][0]["limits"][0];
            let yaml = suggested["yaml"].as_str().unwrap();
            let config = folder.config("suggested.yaml", &format!("  it: {{ {yaml} }}"));
            let report = replay(&[], &config, &log);
            let found = &report["configurations"][0]["limits"][0];
            assert_eq!(found["refused"]["high"], suggested["refused"], "{yaml}");
            assert_eq!(
                found["clients_refused"]["high"], suggested["clients"],
                "{yaml}"
            );
            let allowed = 100.0 - untouched.trim_end_matches('%').parse::<f64>().unwrap();
            let touched = |report: &Value| {
                let limit = &report["configurations"][0]["limits"][0];
                let part = limit["clients_refused"]["high"].as_f64().unwrap();
                part * 100.0 / limit["keys"].as_f64().unwrap()
            };
            assert!(touched(&report) <= allowed, "{yaml}");
            // The largest that is stated to be too small touches too many.
            let capacity = suggested["capacity"].as_u64().unwrap();
            let Some(more_at) = suggested["more_at"].as_u64() else {
                assert_eq!(capacity, 1, "{suggested}");
                continue;
            };
            assert!(more_at < capacity, "{suggested}");
            let config = folder.config(
                "less.yaml",
                &format!("  it: {{ {} }}", with(limit, more_at)),
            );
            let report = replay(&[], &config, &log);
            assert!(touched(&report) > allowed, "{yaml}: {more_at}");
        }
    }
}

/// A limit with another capacity. A pace changes in proportion.
fn with(limit: &str, capacity: u64) -> String {
    let numbers = limit.split([' ', ',', '/']);
    let number = numbers.filter_map(|word| word.parse::<u64>().ok()).next();
    let own = number.unwrap();
    let (head, tail) = limit.split_once(&format!(" {own},")).unwrap();
    let tail = match tail.split_once("/s") {
        None => tail.to_owned(),
        Some((rate, rest)) => {
            let (name, count) = rate.rsplit_once(' ').unwrap();
            let count: u64 = count.parse().unwrap();
            format!("{name} {}/{own}s{rest}", count * capacity)
        }
    };
    format!("{head} {capacity},{tail}")
}

/// Clients whose plan has a quota of its own are no part of what is tried, nor of the clients that may be refused.
#[test]
fn clients_with_quotas_of_their_own_make_no_share_smaller() {
    let folder = Folder::new();
    let limits = "  it: { fixed_window: { limit: 2, window: 1h } }
plans:
  office: { members: [10.0.0.0/8], it: { fixed_window: { limit: 100000, window: 1h } } }";
    let config = folder.config("gateway.yaml", limits);
    // Ten clients with ten requests each, and ninety of the plan.
    let line = |ip: String| {
        format!("{{\"ts\":1795000000000000,\"ip\":\"{ip}\",\"url\":\"/\",\"verb\":\"GET\"}}\n")
    };
    let clients = (0..100).map(|nth| match nth {
        0..10 => line(format!("192.0.2.{nth}")).repeat(10),
        _ => line(format!("10.0.0.{nth}")),
    });
    let log = folder.write("app.log", &clients.collect::<String>());
    let report = replay(&["--suggest=90%"], &config, &log);
    let suggested = &report["suggested"][0]["limits"][0];
    let numbers = ["capacity", "refused", "of", "clients", "of_clients"];
    assert_eq!(
        numbers.map(|name| suggested[name].as_u64()),
        [10, 0, 100, 0, 10].map(Some),
        "{suggested}"
    );
}

/// Every limit is named: with a quota, or with why there is none.
#[test]
fn limits_without_a_suggestion_are_named() {
    let folder = Folder::new();
    let config = folder.write(
        "gateway.yaml",
        "listen: 127.0.0.1:0
clients: [{ ip: {} }]
limits:
  it: { fixed_window: { limit: 5, window: 1h } }
  lacking: { fixed_window: { limit: 5, window: 1h }, per: [\"header:X-Tenant\"] }
  unused: { fixed_window: { limit: 5, window: 1h } }
routes:
  - { path: /unused, upstream: http://127.0.0.1:9, limits: [unused] }
  - { path: /**, upstream: http://127.0.0.1:9, limits: [it, lacking] }
",
    );
    let log = folder.write("app.log", &log());
    let report = replay(&["--suggest"], &config, &log);
    let without = serde_json::json!([
        { "limit": "lacking", "why": "it could be computed for no request" },
        { "limit": "unused", "why": "no request met it" },
    ]);
    assert_eq!(report["suggested"][0]["without"], without);
    assert_eq!(report["suggested"][0]["limits"][0]["limit"], "it");
    let config = config.to_str().unwrap();
    let text = simulate(&["-c", config, "--map", MAP, "--suggest"], &[&log]);
    let comment = "# unused: none is suggested, for no request met it\nlimits:\n  it: {";
    assert!(text.contains(comment), "{text}");
}

#[test]
fn what_cannot_be_read_twice_is_refused() {
    let folder = Folder::new();
    let config = folder.limited("fixed_window: { limit: 5, window: 1h }");
    let mut command = tidegate(&["simulate", "--suggest", "/dev/stdin", "-c"]);
    command.arg(&config).stdin(Stdio::piped());
    let (status, _, error) = ended(&mut command);
    let expected = "error: --suggest reads the logs twice, which /dev/stdin cannot be: it is no regular file\n";
    assert_eq!((status, &*error), (Some(1), expected));
}

/// A client that is refused comes again when the refusal says so, and is admitted then.
#[test]
fn refused_clients_may_come_again() {
    let folder = Folder::new();
    let config = folder.limited("sliding_window_log: { limit: 1, window: 5s }");
    let line =
        |at: u64| format!("{{\"ts\":{at},\"ip\":\"192.0.2.1\",\"url\":\"/\",\"verb\":\"GET\"}}\n");
    let start = 1_795_000_000_000_000;
    let log = format!("{}{}", line(start), line(start + 2_000_000));
    let log = folder.write("app.log", &log);
    let once = &replay(&[], &config, &log)["configurations"][0];
    assert_eq!(once["refused"]["high"], 1);
    let again = &replay(&["--retry", "after"], &config, &log)["configurations"][0];
    let numbers = ["admitted", "refused", "retries", "admitted_later"];
    assert_eq!(
        numbers.map(|name| again[name]["high"].as_u64()),
        [2, 0, 1, 1].map(Some)
    );
}

/// A delayed request is let through as the gateway would.
#[test]
fn requests_wait_as_long_as_they_may() {
    let folder = Folder::new();
    let config = folder
        .limited("token_bucket: { capacity: 1, refill: 1/s }, action: { delay: { max: 2500ms } }");
    let line =
        |at: u64| format!("{{\"ts\":{at},\"ip\":\"192.0.2.1\",\"url\":\"/\",\"verb\":\"GET\"}}\n");
    // Five at once: one at once, two wait for one and two seconds, two would wait too long.
    let log: String = (0..5).map(|_| line(1_795_000_000_000_000)).collect();
    let log = folder.write("app.log", &log);
    let found = &replay(&[], &config, &log)["configurations"][0];
    let numbers = ["admitted", "refused", "delayed", "longest_delay_ms"];
    assert_eq!(
        numbers.map(|name| found[name]["high"].as_u64()),
        [3, 2, 2, 2_000].map(Some)
    );
    // Who waits is not refused: a quota that is tried alone would tell nothing.
    assert_eq!(found["limits"][0]["needed"][0]["of"], 0);
    let suggested = &replay(&["--suggest"], &config, &log)["suggested"][0];
    let without =
        serde_json::json!([{ "limit": "it", "why": "requests wait for it by action: delay" }]);
    assert_eq!(suggested["without"], without);
    let text = simulate(&["-c", config.to_str().unwrap(), "--map", MAP], &[&log]);
    let note = "No other quotas are tried for limits with action: delay: it.";
    assert!(text.contains(note), "{text}");
}

#[test]
fn the_page_needs_nothing_else_and_trusts_no_text() {
    let folder = Folder::new();
    let config = folder.limited("fixed_window: { limit: 1, window: 1h }");
    let log = folder.write("<b>.log", &log());
    let page = folder.write("report.html", "");
    replay(
        &["--html", page.to_str().unwrap(), "--suggest"],
        &config,
        &log,
    );
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("&lt;b&gt;.log") && !page.contains("<b>"));
    for never in [
        "http://", "https://", "<script", "url(", "@import", "onload",
    ] {
        assert!(!page.contains(never), "{never}");
    }
    assert!(page.contains("ip:192.0.2.0") && page.contains("fixed_window: { limit: "));
}
