//! Requests that were answered with 401: by the upstream, which limits count, and by the gateway, which only limits under `always` do.

use std::fs;
use std::path::Path;

use http::{Request, Response};
use serde_json::Value;
use tidegate_testkit::{Client, Upstream, body};

use super::edges::Folder;
use super::{FIELDS, simulate};
use crate::access_log_file::log;
use crate::support::TestGateway;

/// A limit on failed logins, and clients with API keys. The listed key is `demo-key`.
const FAILED_LOGINS: &str = "
clients: [{ api_key: { header: X-API-Key, unknown: reject, keys: [{ name: acme, hash: \"sha256:c48a01f49fd0f2cc404bc3cbbc80e91457a3d41bb429a695243de4c61794155c\" }] } }, { ip: {} }]
limits:
  logins: { fixed_window: { limit: 3, window: 1h }, count: { status: [401, 403] } }
  guard: { fixed_window: { limit: 15, window: 1h }, per: [ip] }
always: [guard]
routes: [{ path: /**, upstream: \"http://127.0.0.1:9\", limits: [logins] }]
";

/// The same without the limit that counts requests with refused credentials.
fn without_guard() -> String {
    let guard =
        "  guard: { fixed_window: { limit: 15, window: 1h }, per: [ip] }\nalways: [guard]\n";
    FAILED_LOGINS.replace(guard, "")
}

fn report(arguments: &[&str], config: &Path, log: &Path) -> Value {
    super::report(&[&["--strict"], arguments].concat(), config, log)
}

/// Twenty lines of one second in tidegate's JSON with these members.
fn lines(members: &str) -> String {
    let line = |nth: u64| {
        format!(
            "{{\"timestamp\":\"2026-11-22T10:30:00.{nth:06}Z\",\"method\":\"POST\",\"path\":\"/login\",\"host\":\"a\",\"status\":401,\
             \"peer\":\"192.0.2.1\",\"client_ip\":\"192.0.2.1\",\"client\":\"ip:192.0.2.1\",\"total_us\":1000,{members}\"target\":\"access\"}}\n"
        )
    };
    (0..20).map(line).collect()
}

#[test]
fn every_401_of_another_proxys_log_is_counted() {
    let folder = Folder::new();
    let config = folder.write("gateway.yaml", &without_guard());
    let line = |client: &str| {
        let line = format!(
            "192.0.2.1 {client} [22/Nov/2026:10:30:00 +0000] \"POST /login HTTP/1.1\" 401 1000\n"
        );
        line.repeat(20)
    };
    let log = folder.write("access.log", &line("ip:192.0.2.1"));
    let format = [
        "--format",
        "$remote_addr $client [$time_local] \"$request\" $status $total_us",
    ];
    let counted = report(&[&format[..], &["--suggest"]].concat(), &config, &log);
    assert_eq!(counted["configurations"][0]["refused"]["high"], 17);
    let suggested = &counted["suggested"][0]["limits"][0];
    assert_eq!(suggested["capacity"], 20, "{suggested}");
    // The same without the column.
    let format = [
        "--format",
        "$remote_addr $_ [$time_local] \"$request\" $status $total_us",
    ];
    let config = folder.write(
        "addresses.yaml",
        &without_guard().replace("count:", "per: [ip], count:"),
    );
    let counted = report(&format, &config, &log);
    assert_eq!(counted["configurations"][0]["refused"]["high"], 17);
}

#[test]
fn a_401_is_the_gateways_where_its_log_says_so() {
    let folder = Folder::new();
    let config = folder.write("gateway.yaml", FAILED_LOGINS);
    for (members, logins, guard) in [
        // The upstream's, whatever fields were chosen.
        ("\"outcome\":\"forwarded\",\"upstream_status\":401,", 17, 0),
        ("\"outcome\":\"forwarded\",", 17, 0),
        ("\"upstream_status\":401,", 17, 0),
        ("", 17, 0),
        // The gateway's.
        ("\"outcome\":\"rejected\",\"error\":\"unauthorized\",", 0, 5),
    ] {
        let log = folder.write("access.log", &lines(members));
        let report = report(&[], &config, &log);
        let report = &report["configurations"][0];
        let refused = |at: usize| report["limits"][at]["refused"]["high"].as_u64();
        assert_eq!(
            [refused(0), refused(1)],
            [Some(logins), Some(guard)],
            "{members}"
        );
        let aside = if logins == 0 { 20 } else { 0 };
        assert_eq!(report["credentials_refused"], aside, "{members}");
    }
    // Requests without an effect on a limit are stated.
    let log = folder.write("access.log", &lines("\"outcome\":\"rejected\","));
    let text = simulate(&["-c", config.to_str().unwrap()], &[&log]);
    assert!(
        text.contains("5 refused (25 %), 20 with refused credentials\n"),
        "{text}"
    );
    assert!(
        text.contains("logins: no request met it; 20 with refused credentials did not count\n"),
        "{text}"
    );
}

/// Credentials that this configuration refuses, in a log that has them.
#[test]
fn credentials_that_the_configuration_refuses_are_stated() {
    let folder = Folder::new();
    let config = folder.write("gateway.yaml", &without_guard());
    let line = |key: &str| {
        format!(
            "{{\"msec\":1795341600.123,\"remote_addr\":\"192.0.2.1\",\"request\":\"GET / HTTP/1.1\",\"status\":401,\
             \"request_time\":0.010,\"http_x_api_key\":\"{key}\"}}\n"
        )
    };
    let log = folder.write(
        "access.log",
        &(line("wrong").repeat(6) + &line("demo-key").repeat(4)),
    );
    let report = report(&[], &config, &log);
    let report = &report["configurations"][0];
    assert_eq!(report["credentials_refused"], 6);
    assert_eq!(report["limits"][0]["refused"]["high"], 1);
}

/// The log of a gateway that answered some requests with 401 itself, and forwarded others whose upstream did.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_refuses_the_logins_that_the_gateway_refused() {
    let upstream = Upstream::start(async |_| {
        let mut response = Response::new(body::empty());
        *response.status_mut() = http::StatusCode::UNAUTHORIZED;
        response
    });
    let folder = Folder::new();
    let file = folder.write("access.log", "");
    let yaml = format!(
        "log: {{ {} }}\n{}",
        log(&file, FIELDS),
        FAILED_LOGINS.replace("http://127.0.0.1:9", &upstream.url())
    );
    let config = folder.write("gateway.yaml", &yaml);
    let gateway = TestGateway::start(&yaml).await;
    let client = Client::new(gateway.address).knows("www-authenticate");
    for key in [&["wrong"; 4][..], &["demo-key"; 6], &["wrong"; 10]].concat() {
        let request = Request::get("/login").header("x-api-key", key);
        client.request(request.body(body::empty()).unwrap()).await;
    }
    gateway.stop().await;
    let refused = fs::read_to_string(&file).unwrap();
    let refused = |limit: &str| {
        refused
            .matches(&format!("\"refused_by\":\"{limit}\""))
            .count()
    };
    assert_eq!([refused("logins"), refused("guard")], [3, 2]);
    let report = report(&[], &config, &file);
    let report = &report["configurations"][0];
    let replayed = |at: usize| report["limits"][at]["refused"]["high"].as_u64();
    assert_eq!([replayed(0), replayed(1)], [Some(3), Some(2)], "{report:#}");
    assert_eq!(report["credentials_refused"], 12);
}
