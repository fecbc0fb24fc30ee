//! Requests in one line, the pages of the admin port, and what a test waits for.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use http::{Method, Request};
use serde_json::Value;
use tidegate_testkit::{Answer, Client, Message, RawClient, body};

/// Long enough for anything that must happen on a busy machine, short enough to be waited for when it does not.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Sends a request without a body.
pub(crate) async fn send(
    client: &Client,
    method: Method,
    target: &str,
    headers: &[(&str, &str)],
) -> Answer {
    send_body(client, method, target, headers, body::empty()).await
}

/// Sends a request with a body.
pub(crate) async fn send_body(
    client: &Client,
    method: Method,
    target: &str,
    headers: &[(&str, &str)],
    body: body::BoxBody,
) -> Answer {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    client.request(request.body(body).unwrap()).await
}

/// Sends a GET and returns the status of its answer.
pub(crate) async fn get(client: &Client, target: &str, headers: &[(&str, &str)]) -> u16 {
    let answer = send(client, Method::GET, target, headers).await;
    answer.status.as_u16()
}

/// Sends so many GETs one after another. Each answer must have this status.
pub(crate) async fn get_each(
    client: &Client,
    times: usize,
    target: &str,
    headers: &[(&str, &str)],
    status: u16,
) {
    for nth in 0..times {
        let answer = get(client, target, headers).await;
        assert_eq!(answer, status, "{target}, GET {nth}");
    }
}

/// Sends a GET as bytes, without waiting for its answer.
pub(crate) async fn send_get(client: &mut RawClient, target: &str) {
    let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    client.send(head).await.unwrap();
}

/// Sends these bytes and returns the answer to them.
pub(crate) async fn answer_to(client: &mut RawClient, request: impl AsRef<[u8]>) -> Message {
    client.send(request).await.unwrap();
    client.response(LONG).await.unwrap()
}

/// Sends these bytes on a connection of their own, and returns the status of the answer.
pub(crate) async fn raw_status(address: SocketAddr, request: &str) -> u16 {
    let mut client = RawClient::connect(address).await;
    answer_to(&mut client, request).await.status()
}

/// Returns the JSON of an answer.
pub(crate) fn json_of(answer: &Answer) -> Value {
    serde_json::from_str(answer.text()).unwrap_or_else(|_| panic!("no JSON: {}", answer.text()))
}

/// Returns the status and the text of a page of the admin port.
pub(crate) async fn page(admin: SocketAddr, path: &str) -> (u16, String) {
    let answer = Client::fresh(admin).get(path).await;
    (answer.status.as_u16(), answer.text().to_owned())
}

/// Returns the JSON of a page of the admin port.
pub(crate) async fn page_json(admin: SocketAddr, path: &str) -> Value {
    let answer = Client::fresh(admin).get(path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    json_of(&answer)
}

/// Waits until `/readyz` has this status, and returns its text.
pub(crate) async fn ready(admin: SocketAddr, status: u16) -> String {
    let seen = Mutex::new(String::new());
    until(&format!("/readyz answers {status}"), async || {
        let (found, text) = page(admin, "/readyz").await;
        *seen.lock().unwrap() = text;
        found == status
    })
    .await;
    seen.into_inner().unwrap()
}

/// Returns a sample of the metrics, by its name and labels as they are written there.
pub(crate) async fn sample(admin: SocketAddr, name: &str) -> u64 {
    let found = sample_if_any(admin, name).await;
    found.unwrap_or_else(|| panic!("no {name} in the metrics"))
}

/// As [`sample`], of a metric that may have no such sample yet.
pub(crate) async fn sample_if_any(admin: SocketAddr, name: &str) -> Option<u64> {
    let (_, metrics) = page(admin, "/metrics").await;
    let mut lines = metrics.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    let value = value.parse();
    Some(value.unwrap_or_else(|_| panic!("{name} is no whole number")))
}

/// Waits until a sample of the metrics has this value.
pub(crate) async fn sample_becomes(admin: SocketAddr, name: &str, value: u64) {
    until(&format!("{name} is {value}"), async || {
        sample(admin, name).await == value
    })
    .await;
}

/// Asks again and again until the answer is yes.
pub(crate) async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so().await {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
