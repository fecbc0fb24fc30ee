//! Servers of upstreams that fail, as events and in the health of `/status.json`.

use http::StatusCode;
use tidegate_status::document::State;
use tidegate_testkit::{Client, Upstream, body};

use crate::kit::{get, until};
use crate::status::{status, when};
use crate::support::TestGateway;

#[tokio::test]
async fn an_ejection_is_an_event() {
    let good = Upstream::ok();
    let bad = Upstream::start(|_| async {
        let mut answer = http::Response::new(body::full("answer"));
        *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
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
