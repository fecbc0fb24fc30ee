//! Several configurations, exit status, logs that lack something, and lines that cannot be read.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use super::{report, simulate, tried};

/// A folder with a log of the Combined Log Format, and configurations.
pub(super) struct Folder(TempDir);

impl Folder {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.0.path().join(name);
        fs::write(&file, text).unwrap();
        file
    }

    /// A configuration of one limit with this quota.
    pub(super) fn limited(&self, limit: &str) -> PathBuf {
        self.config("gateway.yaml", &format!("  it: {{ {limit} }}"))
    }

    pub(super) fn config(&self, name: &str, limits: &str) -> PathBuf {
        let yaml = format!(
            "listen: 127.0.0.1:0
clients: [{{ ip: {{}} }}]
limits:
{limits}
routes: [{{ path: /**, upstream: http://127.0.0.1:9, limits: [it] }}]
"
        );
        self.write(name, &yaml)
    }
}

/// Lines of one client: `per_second` in each of so many seconds.
fn combined(seconds: u64, per_second: u64) -> String {
    let mut log = String::new();
    for second in 0..seconds {
        for _ in 0..per_second {
            log.push_str(&format!(
                "192.0.2.1 - - [22/Nov/2026:10:00:{second:02} +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"curl\"\n"
            ));
        }
    }
    log
}

#[test]
fn whole_seconds_give_two_numbers_with_the_truth_between() {
    let folder = Folder::new();
    // Ten a second: spread evenly all pass, all at once four of ten do.
    let config = folder.limited("sliding_window_log: { limit: 4, window: 300ms }");
    let log = folder.write("access.log", &combined(20, 10));
    let report = report(&[], &config, &log);
    let refused = &report["configurations"][0]["refused"];
    assert_eq!(*refused, serde_json::json!({ "low": 0, "high": 120 }));
    assert_eq!(report["log"]["whole_seconds"], true);
}

/// Two logs, of which the one that begins first has exact times.
#[test]
fn one_log_with_whole_seconds_is_enough_for_two_numbers() {
    let folder = Folder::new();
    let config = folder.limited("sliding_window_log: { limit: 4, window: 300ms }");
    let exact = "{\"time_iso8601\":\"2026-11-22T09:59:59.123456Z\",\"remote_addr\":\"192.0.2.1\",\"request\":\"GET / HTTP/1.1\",\"status\":200}\n";
    let exact = folder.write("exact.log", exact);
    let coarse = folder.write("coarse.log", &combined(20, 10));
    for logs in [[&*exact, &*coarse], [&*coarse, &*exact]] {
        let text = simulate(&["-c", config.to_str().unwrap(), "--json"], &logs);
        let report: Value = serde_json::from_str(&text).unwrap();
        let refused = &report["configurations"][0]["refused"];
        assert_eq!(*refused, serde_json::json!({ "low": 0, "high": 120 }));
    }
}

/// A log with whole seconds and durations: it is the end of which only the second is known.
#[test]
fn a_request_arrived_so_long_before_its_end_as_it_took() {
    let folder = Folder::new();
    let config = folder.limited("fixed_window: { limit: 9, window: 1h }");
    let line = |second: u64, took: &str| {
        format!(
            "{{\"time_iso8601\":\"2026-11-22T10:00:{second:02}+00:00\",\"remote_addr\":\"192.0.2.1\",\"request\":\"GET / HTTP/1.1\",\
             \"status\":200,\"request_time\":{took}}}\n"
        )
    };
    let log = [
        line(10, "0.001"),
        line(10, "0.001"),
        line(10, "5.000"),
        line(11, "0.000"),
    ];
    let log = folder.write("access.log", &log.concat());
    let decisions = folder.write("decisions.jsonl", "");
    report(&["--decisions", decisions.to_str().unwrap()], &config, &log);
    let text = fs::read_to_string(&decisions).unwrap();
    let times = text.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["at_us"].as_u64().unwrap() % 60_000_000
    });
    // The ends are spread: at 10.0, 10.5 and 10.25 s, in the order of arrival; and 11.0 s.
    assert_eq!(
        times.collect::<Vec<_>>(),
        [5_000_000, 10_249_000, 10_499_000, 11_000_000]
    );
}

#[test]
fn several_configurations_stand_side_by_side() {
    let folder = Folder::new();
    let window = |limit: u64| format!("  it: {{ fixed_window: {{ limit: {limit}, window: 1h }} }}");
    let strict = folder.config("strict.yaml", &window(50));
    let loose = folder.config("loose.yaml", &window(199));
    let log = folder.write("access.log", &combined(20, 10));
    let report = report(&["-c", loose.to_str().unwrap()], &strict, &log);
    let refused = |at: usize| report["configurations"][at]["refused"]["high"].clone();
    assert_eq!([refused(0), refused(1)], [150, 1]);
    let (strict, loose) = (strict.to_str().unwrap(), loose.to_str().unwrap());
    let text = simulate(&["-c", strict, "-c", loose], &[&log]);
    assert!(text.contains("it          150 (75 %)"), "{text}");
    // The quota at which nothing is refused is 200: found between two that were tried.
    let needed = &report["configurations"][1]["limits"][0]["needed"][0];
    let capacity = needed["capacity"].as_u64().unwrap();
    let more_at = needed["more_at"].as_u64().unwrap();
    assert!(more_at < 200 && 200 <= capacity, "{needed}");
}

#[test]
fn the_exit_status_says_whether_too_many_would_be_refused() {
    let folder = Folder::new();
    let config = folder.limited("fixed_window: { limit: 198, window: 1h }");
    let log = folder.write("access.log", &combined(20, 10));
    let status = |share: &str| tried(&["--fail-over", share], &config, &log);
    assert_eq!(status("1%"), (Some(0), String::new()));
    let over = "error: limits would refuse more than 0.9 % of the requests\n";
    assert_eq!(status("0.9%"), (Some(1), over.to_owned()));
    assert_eq!(status("many").0, Some(2));
}

/// Where little or nothing can be judged, a check does not pass.
#[test]
fn the_exit_status_says_whether_it_is_known() {
    let folder = Folder::new();
    let known = folder.config(
        "known.yaml",
        "  it: { fixed_window: { limit: 9, window: 1h } }",
    );
    let unknown = folder.config(
        "unknown.yaml",
        "  it: { fixed_window: { limit: 9, window: 1h }, per: [\"header:X-Tenant\"] }",
    );
    let some = folder.write("access.log", &combined(1, 2));
    let none = folder.write("empty.log", "");
    let run = |config: &Path, log: &Path| tried(&["--fail-over", "50%"], config, log);
    let not_known =
        "error: it is not known whether limits would refuse more than 50 % of the requests:";
    assert_eq!(run(&known, &some), (Some(0), String::new()));
    assert_eq!(
        run(&known, &none),
        (Some(1), format!("{not_known} the logs have none\n"))
    );
    assert_eq!(
        run(&unknown, &some),
        (
            Some(1),
            format!("{not_known} for it the log has no request header x-tenant\n")
        )
    );
}

/// Each request has a line, also one about which no limit is asked.
#[test]
fn every_request_has_a_decision() {
    let folder = Folder::new();
    let config = folder.write(
        "gateway.yaml",
        "listen: 127.0.0.1:0
clients: [{ ip: {} }]
deny: [192.0.2.66]
limits:
  it: { fixed_window: { limit: 1, window: 1h } }
routes: [{ path: /**, upstream: http://127.0.0.1:9, limits: [it] }]
",
    );
    let line = |id: &str, ip: u8, outcome: &str| {
        format!(
            "{{\"timestamp\":\"2026-11-22T10:00:00.500000Z\",\"id\":\"{id}\",\"method\":\"GET\",\"path\":\"/\",\"host\":\"a\",\
             \"status\":200,\"outcome\":\"{outcome}\",\"peer\":\"192.0.2.{ip}\",\"client\":\"ip:192.0.2.{ip}\",\
             \"client_ip\":\"192.0.2.{ip}\",\"target\":\"access\"}}\n"
        )
    };
    let log = [
        line("a", 1, "forwarded"),
        line("b", 1, "forwarded"),
        line("c", 66, "forwarded"),
        line("d", 1, "shed"),
    ];
    let log = folder.write("access.log", &log.concat());
    let decisions = folder.write("decisions.jsonl", "");
    let report = report(&["--decisions", decisions.to_str().unwrap()], &config, &log);
    let report = &report["configurations"][0];
    assert_eq!([&report["denied"], &report["shed"]], [1, 1]);
    let text = fs::read_to_string(&decisions).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let mut decided: Vec<(String, String)> = lines
        .map(|line: Value| {
            let text = |name: &str| line[name].as_str().unwrap().to_owned();
            (text("id"), text("decision"))
        })
        .collect();
    decided.sort();
    let expected = [
        ("a", "admitted"),
        ("b", "refused"),
        ("c", "denied"),
        ("d", "shed"),
    ];
    let expected = expected.map(|(id, decision)| (id.to_owned(), decision.to_owned()));
    assert_eq!(decided, expected);
    let text = simulate(&["-c", config.to_str().unwrap()], &[&log]);
    assert!(text.contains("1 denied, 1 shed"), "{text}");
    // A full disk is no success.
    let (status, error) = tried(&["--json", "--decisions", "/dev/full"], &config, &log);
    assert_eq!(status, Some(1));
    assert!(
        error.starts_with("error: /dev/full: No space left"),
        "{error}"
    );
}

#[test]
fn nothing_in_a_log_controls_the_terminal() {
    let folder = Folder::new();
    let config = folder.limited("fixed_window: { limit: 1, window: 1h }");
    let line = "{\"timestamp\":\"2026-11-22T10:00:00Z\",\"method\":\"GET\",\"path\":\"/\",\"host\":\"a\",\"status\":200,\
                \"client\":\"user_id:\\u001b[2J\\u009bx\\n\",\"client_ip\":\"192.0.2.1\",\"peer\":\"192.0.2.1\",\
                \"target\":\"access\"}\n";
    let config_text = fs::read_to_string(&config).unwrap();
    let config = folder.write(
        "users.yaml",
        &config_text.replace("[{ ip", "[{ user_id: {} }, { ip"),
    );
    let log = folder.write("a\u{1b}[31m\n.log", &format!("{0}{0}\u{7}\n", line));
    let text = simulate(&["-c", config.to_str().unwrap(), "--suggest"], &[&log]);
    assert!(
        text.contains("refused most: user_id: [2J x  1 (it)"),
        "{text}"
    );
    assert!(text.contains("a [31m .log: line 3: "), "{text}");
    assert!(
        !text.contains(|c: char| c.is_control() && c != '\n'),
        "{text:?}"
    );
    let (_, error) = tried(&["--strict"], &config, &log);
    assert!(error.contains("a [31m .log: line 3"), "{error:?}");
}

#[test]
fn what_the_log_lacks_is_named_and_not_guessed() {
    let folder = Folder::new();
    let config = folder.write(
        "gateway.yaml",
        "listen: 127.0.0.1:0
clients: [{ api_key: { header: X-API-Key, keys: [], unknown: fall_through } }, { ip: {} }]
limits:
  of-client: { fixed_window: { limit: 9, window: 1h } }
  of-address: { fixed_window: { limit: 9, window: 1h }, per: [ip] }
  of-tenant: { fixed_window: { limit: 9, window: 1h }, per: [\"header:X-Tenant\"] }
  of-host: { fixed_window: { limit: 9, window: 1h }, per: [host] }
  at-once: { concurrency: { limit: 9 }, per: [ip] }
routes: [{ path: /**, upstream: http://127.0.0.1:9, limits: [of-client, of-address, of-tenant, of-host, at-once] }]
",
    );
    let log = folder.write("access.log", &combined(2, 10));
    let found = report(&[], &config, &log);
    let limits = found["configurations"][0]["limits"].as_array().unwrap();
    let lacks: Vec<_> = limits
        .iter()
        .map(|limit| limit["not_computable"][0]["log_lacks"].as_str())
        .collect();
    let expected = [
        Some("client (nor header x-api-key)"),
        None,
        Some("request header x-tenant"),
        Some("host"),
        Some("duration"),
    ];
    assert_eq!(lacks, expected);
    assert_eq!(
        limits[1]["refused"],
        serde_json::json!({ "low": 11, "high": 11 })
    );
    let given = report(&["--host", "a.example"], &config, &log);
    let limits = given["configurations"][0]["limits"].as_array().unwrap();
    assert_eq!(limits[3]["not_computable"], serde_json::json!([]));
}

#[test]
fn lines_that_cannot_be_read_are_counted_and_shown() {
    let folder = Folder::new();
    let config = folder.limited("fixed_window: { limit: 9, window: 1h }");
    let log = format!("{}nonsense\n\u{1}\u{2}\n", combined(2, 5));
    let log = folder.write("access.log", &log);
    let report = report(&[], &config, &log);
    assert_eq!(report["log"]["unreadable"], 2);
    let shown = report["log"]["first_unreadable"][0].as_str().unwrap();
    assert!(shown.contains("access.log: line 11: "), "{shown}");
    assert_eq!(tried(&["--strict"], &config, &log).0, Some(1));
}
