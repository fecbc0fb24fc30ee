//! What a log lacks although its format can have it: limits that need it are not computable, and that is said.

use std::path::Path;

use serde_json::{Value, json};

use super::edges::Folder;
use super::report;

fn replay(arguments: &[&str], config: &Path, log: &Path) -> Value {
    report(arguments, config, log)["configurations"][0].clone()
}

/// What the log lacks for each limit, and how many requests that concerns.
fn lacks(report: &Value) -> Vec<Value> {
    let limits = report["limits"].as_array().unwrap().iter();
    limits
        .map(|limit| limit["not_computable"].clone())
        .collect()
}

/// Twenty requests at once in tidegate's JSON with these members beside their times.
fn lines(members: &str) -> String {
    let line = |nth: u64| {
        format!(
            "{{\"timestamp\":\"2026-11-22T10:00:00.{nth:06}Z\",\"level\":\"INFO\",{members},\"target\":\"access\"}}\n"
        )
    };
    (0..20).map(line).collect()
}

const DECIDED: &str = r#""method":"GET","path":"/","status":200,"peer":"192.0.2.1","client_ip":"192.0.2.1","client":"ip:192.0.2.1""#;

#[test]
fn a_log_without_durations_computes_no_slots() {
    let folder = Folder::new();
    let config = folder.limited("concurrency: { limit: 1 }");
    let members = format!("{DECIDED},\"host\":\"a\"");
    let log = folder.write("few.log", &lines(&members));
    let report = replay(&[], &config, &log);
    let lack = json!([{ "log_lacks": "duration", "requests": 20 }]);
    assert_eq!(lacks(&report), [lack]);
    let log = folder.write(
        "full.log",
        &lines(&format!("{members},\"total_us\":500000")),
    );
    let report = replay(&[], &config, &log);
    assert_eq!(report["refused"]["high"], 19);
}

#[test]
fn a_log_without_hosts_has_those_that_are_said() {
    let folder = Folder::new();
    let config = folder.limited("fixed_window: { limit: 1, window: 1h }");
    let log = folder.write("access.log", &lines(DECIDED));
    for arguments in [&[][..], &["--host", "a"]] {
        let report = replay(arguments, &config, &log);
        assert_eq!(report["without_route"], 0, "{arguments:?}");
        assert_eq!(report["refused"]["high"], 19, "{arguments:?}");
    }
}

#[test]
fn a_log_of_cloudfront_has_no_cookie_that_it_does_not_name() {
    let folder = Folder::new();
    let config = folder.limited("fixed_window: { limit: 1, window: 1h }, per: [\"cookie:sid\"]");
    let line = "2026-11-22\t10:00:00\t192.0.2.1\tGET\t/\t200";
    let log = format!("#Fields: date time c-ip cs-method cs-uri-stem sc-status\n{line}\n{line}\n");
    let log = folder.write("access.log", &log);
    let report = replay(&[], &config, &log);
    let lack = json!([{ "log_lacks": "request header cookie", "requests": 2 }]);
    assert_eq!(lacks(&report), [lack]);
    let log = format!(
        "#Fields: date time c-ip cs-method cs-uri-stem sc-status cs(Cookie)\n{line}\tsid=a\n{line}\tsid=a\n"
    );
    let log = folder.write("cookies.log", &log);
    assert_eq!(replay(&[], &config, &log)["refused"]["high"], 1);
}

/// A route that requires an API key, and a log that does not say whether one was sent.
#[test]
fn required_credentials_that_a_log_lacks_make_no_limit_vanish() {
    let folder = Folder::new();
    let config = folder.write(
        "gateway.yaml",
        "listen: 127.0.0.1:0
clients: [{ api_key: { header: X-API-Key, keys: [{ name: acme, hash: \"sha256:c48a01f49fd0f2cc404bc3cbbc80e91457a3d41bb429a695243de4c61794155c\" }] } }, { ip: {} }]
limits:
  it: { fixed_window: { limit: 3, window: 1h } }
  all: { fixed_window: { limit: 3, window: 1h }, per: [] }
routes: [{ path: /**, upstream: http://127.0.0.1:9, require: api_key, limits: [it, all] }]
",
    );
    let line =
        "192.0.2.1 - - [22/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"curl\"\n";
    let log = folder.write("access.log", &line.repeat(5));
    let report = replay(&[], &config, &log);
    let lack = json!([{ "log_lacks": "client (nor header x-api-key)", "requests": 5 }]);
    assert_eq!(lacks(&report), [lack.clone(), lack]);
    // A log that names the client, from before anything was required.
    let log = folder.write("named.log", &lines(&format!("{DECIDED},\"host\":\"a\"")));
    let report = replay(&[], &config, &log);
    let lack = json!([{ "log_lacks": "credentials that the route requires", "requests": 20 }]);
    assert_eq!(lacks(&report), [lack.clone(), lack]);
    let members = DECIDED.replace("\"client\":\"ip:192.0.2.1\"", "\"client\":\"api_key:acme\"");
    let log = folder.write("shown.log", &lines(&format!("{members},\"host\":\"a\"")));
    let report = replay(&[], &config, &log);
    assert_eq!(lacks(&report), [json!([]), json!([])]);
    assert_eq!(report["refused"]["high"], 17);
}

/// The log of a proxy that does not write the address that connected.
#[test]
fn lists_of_addresses_need_an_address() {
    let folder = Folder::new();
    let line = "{\"ts\":1795000000000000,\"url\":\"/\",\"verb\":\"GET\"}\n";
    let log = folder.write("app.log", &line.repeat(3));
    let map = ["--map", "time=$.ts,path=$.url,method=$.verb"];
    let lack = |report: &Value| report["limits"][0]["not_computable"][0]["log_lacks"].clone();
    let all = "  it: { fixed_window: { limit: 1, window: 1h }, per: []";
    for limits in [
        format!("{all}, exempt: [10.0.0.0/8] }}"),
        format!("{all} }}\ndeny: [10.0.0.0/8]"),
        format!(
            "{all} }}\nplans:\n  office: {{ members: [10.0.0.0/8], it: {{ fixed_window: {{ limit: 9, window: 1h }} }} }}"
        ),
    ] {
        let config = folder.config("gateway.yaml", &limits);
        let report = replay(&map, &config, &log);
        assert_eq!(
            lack(&report),
            "client address (--peer names one)",
            "{limits}"
        );
    }
    let config = folder.config("gateway.yaml", &format!("{all} }}"));
    let report = replay(&map, &config, &log);
    assert_eq!(lack(&report), Value::Null);
    let top = json!([{ "client": "unknown", "limit": "it", "refused": { "low": 2, "high": 2 } }]);
    assert_eq!(report["top"], top);
}
