//! The formats of `/metrics`, and the classes of answers that it tells apart.

use std::io::Write as _;
use std::process::{Command, Stdio};

use http::{Method, Response, StatusCode};
use tidegate_testkit::{Answer, Client, Upstream, body};

use crate::kit::{Bench, LONG, get, sample, send};
use crate::support::TestGateway;

async fn metrics(bench: &Bench, accept: &[(&str, &str)]) -> (String, Answer) {
    let admin = Client::fresh(bench.gateway.admin);
    let answer = send(&admin, Method::GET, "/metrics", accept).await;
    let kind = answer.header("content-type").unwrap().to_owned();
    (kind, answer)
}

#[tokio::test]
async fn openmetrics_is_for_those_who_accept_it_and_text_for_all_others() {
    let bench = Bench::of_limit("", "fixed_window: { limit: 1, window: 31d }").await;
    for status in [200, 429] {
        assert_eq!(get(&bench.client, "/", &[]).await, status);
    }
    let samples = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        // Numbers of the process change from page to page.
        let lines = lines.filter(|line| !line.starts_with("tidegate_resident_memory"));
        lines.map(str::to_owned).collect()
    };
    let (kind, open) = metrics(
        &bench,
        &[("accept", "application/openmetrics-text; version=1.0.0")],
    )
    .await;
    assert_eq!(
        kind,
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    assert!(open.text().ends_with("\n# EOF\n"));
    assert!(open.text().contains("# TYPE tidegate_requests counter\n"));
    assert!(
        open.text()
            .contains("# UNIT tidegate_store_duration_seconds seconds\n")
    );
    for accept in [
        &[][..],
        &[("accept", "*/*")],
        &[("accept", "text/plain;version=0.0.4")],
    ] {
        let (kind, text) = metrics(&bench, accept).await;
        assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
        assert_eq!(samples(text.text()), samples(open.text()));
        assert!(text.text().contains("# HELP tidegate_requests_total "));
        assert!(
            text.text()
                .contains("# TYPE tidegate_requests_total counter\n")
        );
        assert!(!text.text().contains("# EOF") && !text.text().contains("# UNIT"));
    }
    bench.stop().await;
}

/// By `promtool check metrics`, where it is installed; .ci/test installs it.
#[tokio::test]
async fn promtool_finds_nothing_wrong() {
    let bench = Bench::of_limit("", "fixed_window: { limit: 1, window: 31d }").await;
    get(&bench.client, "/", &[]).await;
    let (_, text) = metrics(&bench, &[]).await;
    let checked = tokio::task::spawn_blocking(move || {
        let mut checking = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("promtool, of the package prometheus");
        let mut page = checking.stdin.take().unwrap();
        page.write_all(text.text().as_bytes()).unwrap();
        drop(page);
        checking.wait_with_output().unwrap()
    });
    let checked = checked.await.unwrap();
    assert!(
        checked.status.success() && checked.stdout.is_empty() && checked.stderr.is_empty(),
        "{checked:?}"
    );
    bench.stop().await;
}

/// An upstream's own errors are told from its other answers.
#[tokio::test]
async fn requests_are_counted_by_the_class_of_their_status() {
    let upstream = Upstream::start(|request| async move {
        let status = request
            .uri()
            .path()
            .trim_start_matches('/')
            .parse()
            .unwrap();
        let status = StatusCode::from_u16(status).unwrap();
        Response::builder()
            .status(status)
            .body(body::empty())
            .unwrap()
    });
    let gateway = TestGateway::start(&format!(
        "routes: [{{ name: api, path: /**, upstream: \"{}\" }}]\n",
        upstream.url()
    ))
    .await;
    let client = Client::new(gateway.address);
    for status in [200, 204, 302, 404, 500, 500, 503, 799] {
        assert_eq!(get(&client, &format!("/{status}"), &[]).await, status);
    }
    assert_eq!(get(&client, "/500%zz", &[]).await, 400);
    for (route, outcome, status, count) in [
        ("api", "forwarded", "2xx", 2),
        ("api", "forwarded", "3xx", 1),
        ("api", "forwarded", "4xx", 1),
        ("api", "forwarded", "5xx", 3),
        ("api", "forwarded", "other", 1),
        ("none", "rejected", "4xx", 1),
        ("api", "failed", "5xx", 0),
        ("api", "abandoned", "none", 0),
    ] {
        let labels = format!("route=\"{route}\",outcome=\"{outcome}\",status=\"{status}\"");
        let name = format!("tidegate_requests_total{{{labels}}}");
        assert_eq!(sample(gateway.admin, &name).await, count, "{name}");
    }
    upstream.stop().await;
    tokio::time::timeout(LONG, gateway.stop()).await.unwrap();
}
