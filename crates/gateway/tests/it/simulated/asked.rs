//! Decisions about requests that other programs carry, in tidegate's own log.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::edges::Folder;
use super::{decisions, report, simulate};

/// A line of a decision, without the door of a proxied request.
fn line(id: &str, door: &str, outcome: &str, status: u16) -> String {
    let door = match door {
        "" => String::new(),
        door => format!("\"door\":\"{door}\","),
    };
    format!(
        "{{\"timestamp\":\"2026-11-22T10:00:00.500000Z\",\"id\":\"{id}\",\"method\":\"POST\",\"path\":\"/v1/check\",\"host\":\"a\",\
         \"status\":{status},\"outcome\":\"{outcome}\",{door}\"peer\":\"192.0.2.1\",\"client\":\"ip:192.0.2.1\",\
         \"client_ip\":\"192.0.2.1\",\"total_us\":200,\"target\":\"access\"}}\n"
    )
}

/// The IDs of the requests, and whether the replay admits them.
fn replayed(config: &Path, log: &Path, folder: &Folder) -> (Value, Vec<(String, bool)>) {
    let file = folder.write("decisions.jsonl", "");
    let report = report(&["--decisions", file.to_str().unwrap()], config, log);
    let admitted = |line: &Value| line["decision"] == "admitted";
    let found = decisions(&file, admitted, |_| Vec::new()).into_iter();
    (
        report,
        found.map(|(id, (admitted, ..))| (id, admitted)).collect(),
    )
}

#[test]
fn questions_of_proxies_are_requests_and_other_questions_are_left_out() {
    let folder = Folder::new();
    let config = folder.limited("fixed_window: { limit: 2, window: 1h }");
    let log = [
        line("a", "ask", "admitted", 200),
        line("b", "check", "admitted", 200),
        line("c", "rate_limit_service", "limited", 429),
        line("d", "", "forwarded", 200),
        line("e", "ask", "admitted", 200),
    ];
    let log = folder.write("access.log", &log.concat());
    let (report, found) = replayed(&config, &log, &folder);
    let expected = [("a", true), ("d", true), ("e", false)];
    assert_eq!(found, expected.map(|(id, is)| (id.to_owned(), is)));
    let of = |name: &str| report["log"][name].as_u64().unwrap();
    assert_eq!(
        ["lines", "requests", "questions", "others"].map(of),
        [5, 3, 2, 0]
    );
    assert_eq!(report["log"]["files"][0]["requests"], 3);
    assert_eq!(report["configurations"][0]["limited_before"], 0);
    let page = folder.write("report.html", "");
    let arguments = [
        "-c",
        config.to_str().unwrap(),
        "--html",
        page.to_str().unwrap(),
    ];
    let text = simulate(&arguments, &[&log]);
    let note = "2 lines are decisions by /v1/check or RateLimitService. They are left out: \
        they name limits or descriptors, and describe no request.";
    assert!(text.contains(note), "{text}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains(note), "{page}");
}

/// A gateway that answers programs alone.
#[test]
fn a_log_of_questions_alone_has_no_requests() {
    let folder = Folder::new();
    let config = folder.limited("fixed_window: { limit: 1, window: 1h }");
    let log = folder.write(
        "access.log",
        &line("a", "check", "admitted", 200).repeat(300),
    );
    let (report, found) = replayed(&config, &log, &folder);
    assert_eq!(found, []);
    let of = |name: &str| report["log"][name].as_u64().unwrap();
    assert_eq!(["requests", "questions", "unreadable"].map(of), [0, 300, 0]);
    assert_eq!(report["log"]["files"][0]["format"], "tidegate-json");
}

/// The gateway does not see the answer to such a request, so it stays charged.
#[test]
fn a_request_that_a_proxy_carries_is_charged_whatever_its_answer_is() {
    let folder = Folder::new();
    let limit = "fixed_window: { limit: 1, window: 1h }, count: { status: [404] }";
    let config = folder.limited(limit);
    for (door, outcome, is_admitted) in [("", "forwarded", true), ("ask", "admitted", false)] {
        let log = ["a", "b"].map(|id| line(id, door, outcome, 200));
        let log = log.concat().replace(
            "10:00:00.500000Z\",\"id\":\"b",
            "10:00:09.500000Z\",\"id\":\"b",
        );
        let log = folder.write("access.log", &log);
        let (_, found) = replayed(&config, &log, &folder);
        let expected = [("a", true), ("b", is_admitted)];
        assert_eq!(
            found,
            expected.map(|(id, is)| (id.to_owned(), is)),
            "{door}"
        );
    }
}
