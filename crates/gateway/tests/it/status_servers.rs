//! Servers of upstreams that fail, as events and in the health of `/status.json`, and in metrics.

use http::StatusCode;
use tidegate_status::document::State;
use tidegate_testkit::{Client, Port, Upstream, body};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::kit::{get, get_each, page, until};
use crate::status::{status, when};
use crate::support::TestGateway;

#[tokio::test]
async fn an_ejection_is_an_event() {
    let good = Upstream::ok();
    let bad = Upstream::start(|_| async {
        let mut answer = http::Response::new(body::full("answer"));
        *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        answer
    });
    let gateway = TestGateway::start(&format!(
        "
upstreams: {{ pair: {{ servers: [\"{}\", \"{}\"], eject: {{ after: 3, for: 1h }} }} }}
routes: [{{ path: /**, upstream: pair }}]
",
        good.url(),
        bad.url()
    ))
    .await;
    let client = Client::new(gateway.address);
    until("it is ejected", async || {
        get(&client, "/", &[]).await;
        status(gateway.admin).await.upstreams[0].ejections == 1
    })
    .await;
    let address = bad.url().replace("http://", "");
    let expected =
        format!("The server {address} of pair failed too often and is left out for a while.");
    let seen = when(gateway.admin, "it is an event", |it| {
        it.events.iter().any(|event| event.kind == "upstream")
    })
    .await;
    let event = &seen.events[0];
    assert_eq!((&*event.text, event.state), (&*expected, State::Warning));
    assert_eq!(
        seen.health.reasons,
        ["1 of 2 servers of pair take no requests."]
    );
    gateway.stop().await;
}

/// The only server of an upstream is never ejected. It is not healthy while it refuses all connections.
#[tokio::test]
async fn the_only_server_fails_until_it_serves_a_request() {
    let port = Port::reserve();
    let gateway = TestGateway::start(&format!(
        "
upstreams: {{ only: {{ servers: [\"http://{}\"], eject: {{ after: 3 }} }} }}
routes: [{{ path: /**, upstream: only }}]
",
        port.addr()
    ))
    .await;
    let client = Client::new(gateway.address);
    let state = async || {
        let status = status(gateway.admin).await;
        status.upstreams[0].servers[0].state.clone()
    };
    let figure = async |state: &str| {
        let (_, metrics) = page(gateway.admin, "/metrics").await;
        let start = format!("tidegate_upstream_servers{{upstream=\"only\",state=\"{state}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&start));
        line.map(str::to_owned)
    };
    get_each(&client, 2, "/", &[], 502).await;
    assert_eq!(figure("healthy").await.as_deref(), Some("1"));
    assert_eq!(get(&client, "/", &[]).await, 502);
    assert_eq!(figure("failing").await.as_deref(), Some("1"));
    assert_eq!(figure("healthy").await.as_deref(), Some("0"));
    let seen = when(gateway.admin, "it is an event", |it| {
        it.events.iter().any(|event| event.kind == "upstream")
    })
    .await;
    let expected = format!("The server {} of only fails all requests.", port.addr());
    assert_eq!(
        (&*seen.events[0].text, seen.events[0].state),
        (&*expected, State::Warning)
    );
    assert_eq!(seen.health.reasons, ["All requests to only fail."]);
    assert_eq!(seen.health.state, State::Warning);
    assert_eq!(state().await, "failing");
    let server = port.listen();
    tokio::spawn(async move {
        let (mut socket, _) = server.accept().await.unwrap();
        let mut head = [0; 1_024];
        let _ = socket.read(&mut head).await.unwrap();
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        socket.write_all(answer).await.unwrap();
    });
    assert_eq!(get(&client, "/", &[]).await, 200);
    let seen = when(gateway.admin, "it serves again", |it| {
        it.health.reasons.is_empty()
    })
    .await;
    let expected = format!("The server {} of only takes requests again.", port.addr());
    assert_eq!(seen.events[0].text, expected);
    assert_eq!(state().await, "healthy");
    gateway.stop().await;
}

#[tokio::test]
async fn an_upstream_that_a_reload_removes_has_no_servers_any_more() {
    let upstream = Upstream::ok();
    let yaml = |name: &str| {
        let url = upstream.url();
        format!(
            "upstreams: {{ {name}: {{ servers: [\"{url}\"] }} }}\nroutes: [{{ path: /**, upstream: {name} }}]\n"
        )
    };
    let gateway = TestGateway::start(&yaml("first")).await;
    let healthy = async |name: &str| {
        let (_, metrics) = page(gateway.admin, "/metrics").await;
        let start = format!("tidegate_upstream_servers{{upstream=\"{name}\",state=\"healthy\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&start));
        line.map(str::to_owned)
    };
    until("the first is counted", async || {
        healthy("first").await.as_deref() == Some("1")
    })
    .await;
    gateway.reload(&yaml("second")).await;
    until("the second is counted", async || {
        healthy("second").await.as_deref() == Some("1")
    })
    .await;
    assert_eq!(healthy("first").await, None);
    gateway.reload(&yaml("first")).await;
    until("the first is counted again", async || {
        healthy("first").await.as_deref() == Some("1")
    })
    .await;
    assert_eq!(healthy("second").await, None);
    gateway.stop().await;
}
