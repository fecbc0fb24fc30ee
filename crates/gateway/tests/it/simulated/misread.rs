//! Logs whose lines would be easy to misread: a replay has the truth, or states why it has none.

use std::path::Path;

use serde_json::Value;

use super::edges::Folder;
use super::{report, tried};

/// Five hundred requests of fifty clients in ten seconds, by this line.
fn lines(line: impl Fn(u64, u64) -> String) -> String {
    (0..500_u64)
        .map(|nth| line(nth / 50, nth % 50) + "\n")
        .collect()
}

/// The exit status and the errors of a check.
fn check(arguments: &[&str], config: &Path, log: &Path) -> (Option<i32>, String) {
    let (status, error) = tried(&[&["--fail-over", "1%"], arguments].concat(), config, log);
    (status, error.replace(log.to_str().unwrap(), "LOG"))
}

#[test]
fn logs_of_caddy_and_of_apaches_virtual_hosts_have_their_clients() {
    let caddy = lines(|second, client| {
        format!(
            "{{\"level\":\"info\",\"ts\":{}.123,\"logger\":\"http.log.access\",\"msg\":\"handled request\",\"request\":{{\
             \"remote_ip\":\"192.0.2.{client}\",\"remote_port\":\"4711\",\"client_ip\":\"192.0.2.{client}\",\"proto\":\"HTTP/1.1\",\
             \"method\":\"GET\",\"host\":\"a\",\"uri\":\"/?a=1\",\"headers\":{{\"User-Agent\":[\"curl\"]}}}},\"bytes_read\":0,\
             \"duration\":0.01,\"size\":5,\"status\":200,\"resp_headers\":{{\"Server\":[\"Caddy\"]}}}}",
            1_795_341_600 + second
        )
    });
    let vhosts = lines(|second, client| {
        format!(
            "127.0.1.1:443 192.0.2.{client} - - [22/Nov/2026:10:00:{second:02} +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"curl\""
        )
    });
    let folder = Folder::new();
    let config = folder.limited("fixed_window: { limit: 9, window: 1h }");
    for (name, format, log) in [
        ("caddy.log", "caddy", caddy),
        ("vhosts.log", "vhost-combined", vhosts),
    ] {
        let log = folder.write(name, &log);
        let report = report(&[], &config, &log);
        assert_eq!(report["log"]["files"][0]["format"], format);
        let it = &report["configurations"][0];
        assert_eq!(
            [&it["without_route"], &it["refused"]["high"]],
            [0, 50],
            "{name}"
        );
        assert_eq!(it["limits"][0]["keys"], 50, "{name}");
        let over = "error: limits would refuse more than 1 % of the requests\n";
        assert_eq!(check(&[], &config, &log), (Some(1), over.to_owned()));
    }
}

#[test]
fn json_whose_path_is_not_known_is_refused() {
    let folder = Folder::new();
    let config = folder.limited("fixed_window: { limit: 9, window: 1h }");
    let line = |second, client| {
        format!(
            "{{\"ts\":{},\"http\":{{\"url\":\"/\"}},\"ip\":\"192.0.2.{client}\",\"status\":200}}",
            1_795_341_600 + second
        )
    };
    let log = folder.write("app.log", &lines(line));
    let (status, error) = check(&[], &config, &log);
    assert_eq!(status, Some(1));
    assert!(
        error.starts_with(
            "error: LOG: its lines are JSON, and no line has a path under a name that is known: "
        ),
        "{error}"
    );
    // The format is stated.
    let (status, error) = check(&["--format", "nginx-json"], &config, &log);
    assert_eq!(status, Some(1));
    assert!(error.ends_with(": no line has a path\n"), "{error}");
}

#[test]
fn a_log_of_which_no_request_finds_a_route_proves_nothing() {
    let folder = Folder::new();
    let config = folder.limited("fixed_window: { limit: 9, window: 1h }");
    let config = folder.write(
        "hosts.yaml",
        &std::fs::read_to_string(config)
            .unwrap()
            .replace("path: /**", "path: /api/**"),
    );
    let line = |request: &str| {
        let request = request.to_owned();
        lines(move |second, client| {
            format!(
                "192.0.2.{client} - - [22/Nov/2026:10:00:{second:02} +0000] \"{request}\" 200 5 \"-\" \"curl\""
            )
        })
    };
    for (request, why) in [
        (
            "GET /other HTTP/1.1",
            "no request of the logs has a route in CONFIG",
        ),
        ("\\x16\\x03\\x01", "no line has a path"),
    ] {
        let log = folder.write("access.log", &line(request));
        let (status, error) = check(&[], &config, &log);
        let error = error.replace(config.to_str().unwrap(), "CONFIG");
        assert_eq!(
            (status, &*error),
            (
                Some(1),
                &*format!(
                    "error: it is not known whether limits would refuse more than 1 % of the requests: {why}\n"
                )
            )
        );
        let notes = report(&[], &config, &log)["notes"].to_string();
        assert!(notes.contains("route"), "{notes}");
    }
}

#[test]
fn one_client_that_looks_like_a_proxy_is_stated() {
    let folder = Folder::new();
    let config = folder.limited("fixed_window: { limit: 1000, window: 1h }");
    let line = |peer: &str| {
        let peer = peer.to_owned();
        lines(move |second, _| {
            format!(
                "{peer} - - [22/Nov/2026:10:00:{second:02} +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"curl\""
            )
        })
    };
    let stated = |report: &Value| report["notes"].to_string().contains("from one address");
    let why = "error: it is not known whether limits would refuse more than 1 % of the requests: all clients have one address, \
               10.0.0.1, which may be a proxy's: --peer 10.0.0.1 confirms it\n";
    let proxy = folder.write("proxy.log", &line("10.0.0.1"));
    assert_eq!(check(&[], &config, &proxy), (Some(1), why.to_owned()));
    assert!(stated(&report(&[], &config, &proxy)));
    let confirmed = ["--peer", "10.0.0.1"];
    assert_eq!(check(&confirmed, &config, &proxy), (Some(0), String::new()));
    // A single client with a public address is likely enough, and so are few requests.
    let public = folder.write("public.log", &line("192.0.2.1"));
    assert_eq!(check(&[], &config, &public), (Some(0), String::new()));
    assert!(stated(&report(&[], &config, &public)));
    let few: String = line("10.0.0.1")
        .lines()
        .take(50)
        .map(|line| format!("{line}\n"))
        .collect();
    let few = folder.write("few.log", &few);
    assert_eq!(check(&[], &config, &few), (Some(0), String::new()));
    // A limit that is no client's does not ask who it is.
    let shared = folder.config(
        "shared.yaml",
        "  it: { fixed_window: { limit: 1000, window: 1h }, per: [route] }",
    );
    assert_eq!(check(&[], &shared, &proxy), (Some(0), String::new()));
}

#[test]
fn an_empty_client_is_no_request_that_ended_early() {
    let folder = Folder::new();
    let config = folder.limited("fixed_window: { limit: 9, window: 1h }");
    let log = lines(|second, client| {
        format!("192.0.2.{client} - [22/Nov/2026:10:00:{second:02} +0000] \"GET / HTTP/1.1\" 200")
    });
    let log = folder.write("access.log", &log);
    let format = [
        "--format",
        "$remote_addr $client [$time_local] \"$request\" $status",
    ];
    let report = report(&format, &config, &log);
    let lack = &report["configurations"][0]["limits"][0]["not_computable"][0];
    assert_eq!(lack["log_lacks"], "client in these lines", "{lack}");
    assert_eq!(lack["requests"], 500);
}

#[test]
fn the_farthest_out_of_order_is_what_it_is() {
    let folder = Folder::new();
    let config = folder.limited("fixed_window: { limit: 9, window: 1h }");
    let line = |time: &str| {
        format!(
            "192.0.2.1 - - [22/Nov/2026:{time} +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"curl\"\n"
        )
    };
    // Two hours back, and from then on in the wrong order of some seconds.
    let times = ["12:00:00", "10:00:05", "10:00:02", "10:00:04"];
    let log = folder.write("access.log", &times.map(line).concat());
    let notes = report(&[], &config, &log)["notes"].to_string();
    assert!(
        notes.contains("2 requests were logged too far out of order to be put in order, the farthest by 7,198 s."),
        "{notes}"
    );
}

#[test]
fn a_second_with_very_many_requests_is_replayed_in_parts() {
    let folder = Folder::new();
    let config = folder.limited("token_bucket: { capacity: 1000, refill: 100000/s }");
    let line =
        "192.0.2.1 - - [22/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"curl\"\n";
    let log = folder.write("access.log", &line.repeat(200_000));
    let report = report(&[], &config, &log);
    let it = &report["configurations"][0];
    // At once 1,000 are admitted; in one second 101,000, and a few less if the parts are not even.
    let admitted = [&it["admitted"]["low"], &it["admitted"]["high"]].map(|it| it.as_u64().unwrap());
    assert_eq!(admitted[0], 1_000);
    assert!((90_000..=101_000).contains(&admitted[1]), "{admitted:?}");
    let notes = report["notes"].to_string();
    assert!(
        notes.contains("200,000 requests are in seconds with more than 131,072 requests"),
        "{notes}"
    );
}
