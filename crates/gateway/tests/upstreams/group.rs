//! Several servers behind one gateway.

use http::{Method, StatusCode};
use tidegate_testkit::{Client, Upstream, body};

use crate::support::TestGateway;
pub(crate) use crate::support::asking::LONG;
use crate::support::asking::{sample, sample_becomes, send_body};

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

/// How many requests each server got.
pub(crate) fn counts(servers: &[&Upstream]) -> Vec<usize> {
    servers.iter().map(|server| server.count()).collect()
}

/// Returns the name of a metric of the group, with these labels besides.
fn of_group(name: &str, labels: &str) -> String {
    let comma = if labels.is_empty() { "" } else { "," };
    format!("tidegate_upstream_{name}{{upstream=\"group\"{comma}{labels}}}")
}

/// Returns the value of a metric of the group.
pub(crate) async fn metric(gateway: &TestGateway, name: &str, labels: &str) -> u64 {
    sample(gateway.admin, &of_group(name, labels)).await
}

/// Waits until a metric of the group has this value.
pub(crate) async fn becomes(gateway: &TestGateway, name: &str, labels: &str, value: u64) {
    sample_becomes(gateway.admin, &of_group(name, labels), value).await;
}

/// Sends a request with a body, and returns the status of its answer.
pub(crate) async fn ask(client: &Client, method: Method, text: &'static str) -> u16 {
    let answer = send_body(client, method, "/", &[], body::full(text)).await;
    answer.status.as_u16()
}
