//! Several servers behind one gateway.

use std::time::Duration;

use http::StatusCode;
use tidegate_testkit::{Client, Upstream, body};
use tokio::time::{Instant, sleep};

use crate::support::TestGateway;

/// For what ends by itself: no machine is so busy that this is not enough.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A gateway whose one route, with `route` among its keys, leads to `urls`, with `upstream` among theirs.
pub(crate) async fn gateway(urls: &[String], upstream: &str, route: &str) -> TestGateway {
    let urls: Vec<_> = urls.iter().map(|url| format!("\"{url}\"")).collect();
    written(&urls.join(", "), upstream, route).await
}

/// As [`gateway`], with the servers as they are written in YAML.
pub(crate) async fn written(servers: &str, upstream: &str, route: &str) -> TestGateway {
    TestGateway::start(&yaml(servers, upstream, route)).await
}

/// The configuration of such a gateway.
pub(crate) fn yaml(servers: &str, upstream: &str, route: &str) -> String {
    format!(
        "log: {{ access: false }}\n\
         upstreams: {{ group: {{ servers: [{servers}], {upstream} }} }}\n\
         routes: [{{ path: /**, upstream: group, {route} }}]\n"
    )
}

/// A server that answers everything with this status.
pub(crate) fn answering(status: u16) -> Upstream {
    Upstream::start(move |_| async move {
        let mut answer = http::Response::new(body::full("answer"));
        *answer.status_mut() = StatusCode::from_u16(status).unwrap();
        answer
    })
}

/// A server that never answers.
pub(crate) fn hanging() -> Upstream {
    Upstream::start(|_| std::future::pending())
}

/// The value of a metric of the group, with these labels besides.
pub(crate) async fn metric(gateway: &TestGateway, name: &str, labels: &str) -> u64 {
    let answer = Client::fresh(gateway.admin).get("/metrics").await;
    let text = answer.text();
    let comma = if labels.is_empty() { "" } else { "," };
    let line = format!("tidegate_upstream_{name}{{upstream=\"group\"{comma}{labels}}} ");
    let value = text.lines().find_map(|at| at.strip_prefix(&line));
    value
        .unwrap_or_else(|| panic!("there is no {line}in\n{text}"))
        .parse()
        .unwrap()
}

/// Waits until a metric has this value.
pub(crate) async fn becomes(gateway: &TestGateway, name: &str, labels: &str, value: u64) {
    let deadline = Instant::now() + LONG;
    while metric(gateway, name, labels).await != value {
        assert!(Instant::now() < deadline, "{name} {labels} is not {value}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// How many requests each server got.
pub(crate) fn counts(servers: &[&Upstream]) -> Vec<usize> {
    servers.iter().map(|server| server.count()).collect()
}
