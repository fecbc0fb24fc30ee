//! Servers of upstreams that fail, as events and in the health of `/status.json`, and in metrics.

use http::StatusCode;
use tidegate_status::document::State;
use tidegate_testkit::{Client, Upstream, body};

use crate::kit::{get, page, until};
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
