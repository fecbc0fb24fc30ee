//! D5: whatever an upstream does to a request, it is charged once, and costs the gateway no more than any other.

use http::Request;
use http_body_util::BodyExt as _;
use tidegate_testkit::{Action, Client, Port, RawUpstream, When, body};

use crate::lab::{LONG, Lab, OK, gateway};
use crate::support::GatewayProcess;
use crate::support::asking::get_each;

const TEN: &str = "
timeouts: { connect: 2s, upstream: 2s }
limits: { ten: { fixed_window: { limit: 10, window: 31d }, per: [] } }
routes: [{ path: /**, upstream: UPSTREAM, limits: [ten] }]
";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[tokio::test]
async fn a_request_that_its_upstream_fails_is_charged_once() {
    let large = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(300 * 1024));
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf";
    for (name, script) in [
        ("hung", vec![Action::Hang]),
        ("closed", vec![Action::Close]),
        ("reset", vec![Action::Reset]),
        ("large head", vec![Action::send(large)]),
        ("reset in its body", vec![Action::send(half), Action::Reset]),
        ("hung in its body", vec![Action::send(half), Action::Hang]),
    ] {
        let upstream = RawUpstream::start(When::Head, move |turn| match turn.connection {
            0 => script.clone(),
            _ => vec![Action::send(OK)],
        });
        let lab = Lab::around(upstream, TEN).await;
        let mut failed = lab.connect().await;
        failed.send(GET).await.unwrap();
        // An answer that has begun breaks off.
        if let Ok(answer) = failed.response(LONG).await {
            assert!([502, 504].contains(&answer.status()), "{name}: {answer:?}");
        }
        // Nine are left, as the eleventh finds.
        let client = Client::new(lab.gateway.address);
        for _ in 0..9 {
            assert_eq!(client.get("/").await.status, 200, "{name}");
        }
        assert_eq!(client.get("/").await.status, 429, "{name}");
    }
}

/// Also one that could not be sent at all: it was admitted.
#[tokio::test]
async fn a_request_without_an_upstream_is_charged() {
    let nobody = Port::reserve();
    let gateway = gateway(format!("http://{}", nobody.addr()), TEN).await;
    let client = Client::new(gateway.address);
    get_each(&client, 10, "/", &[], 502).await;
    assert_eq!(client.get("/").await.status, 429);
}

/// What the reader has not taken stays with the upstream.
#[tokio::test]
async fn an_answer_without_end_goes_by_and_is_not_kept() {
    const MUCH: usize = 32 << 20;
    let head = Action::send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
    let script = [head, Action::Repeat(chunk.into())];
    let upstream = RawUpstream::start(When::Head, move |_| script.to_vec());
    let yaml = format!(
        "routes: [{{ path: /**, upstream: \"{}\" }}]\n",
        upstream.url()
    );
    let gateway = GatewayProcess::start(&yaml).await;
    for client in [Client::new, Client::h2] {
        let before = gateway.process.peak_rss_kb();
        let request = Request::get("/").body(body::empty()).unwrap();
        let mut answer = client(gateway.address).open(request).await.into_body();
        let mut read = 0;
        while read < MUCH {
            let frame = answer.frame().await.unwrap().unwrap();
            read += frame.data_ref().map_or(0, |data| data.len());
        }
        let grown = gateway.process.peak_rss_kb() - before;
        assert!(grown << 10 < MUCH as u64 / 2, "it grew by {grown} KiB");
    }
}
