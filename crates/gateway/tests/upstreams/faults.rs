//! One of three servers is killed, hangs, or answers 500: how many requests fail, and for how long.

use tidegate_testkit::{Client, Port, Upstream};

use crate::group::{answering, gateway, hanging, metric};

const REQUESTS: usize = 300;

/// Sends the requests one after the other; how many failed, and how many of these after the ejection.
async fn share(name: &str, bad: String) -> (usize, usize) {
    let good = [Upstream::ok(), Upstream::ok()];
    let urls = [good[0].url(), bad, good[1].url()];
    let upstream = "eject: { after: 5, for: 1h }";
    let gateway = gateway(
        &urls,
        upstream,
        "timeouts: { upstream: 200ms, connect: 5s }",
    )
    .await;
    let client = Client::new(gateway.address);
    let (mut failed, mut later) = (0, 0);
    let mut ejected = false;
    for _ in 0..REQUESTS {
        let ok = client.get("/").await.status == 200;
        failed += usize::from(!ok);
        later += usize::from(!ok && ejected);
        ejected = ejected || metric(&gateway, "ejections_total", "").await > 0;
    }
    assert!(ejected, "{name}: it is left out");
    println!("{name}: {failed} of {REQUESTS} requests failed, {later} of them after the ejection");
    (failed, later)
}

#[tokio::test]
async fn a_server_that_refuses_connections_is_noticed_by_nobody() {
    let nobody = Port::reserve();
    let url = format!("http://{}", nobody.addr());
    assert_eq!(share("refused", url).await, (0, 0));
}

#[tokio::test]
async fn a_server_that_hangs_fails_five_requests() {
    let hung = hanging();
    assert_eq!(share("hung", hung.url()).await, (5, 0));
}

#[tokio::test]
async fn a_server_that_answers_500_fails_five_requests() {
    let bad = answering(500);
    assert_eq!(share("500", bad.url()).await, (5, 0));
}

/// At most what was under way when it died fails; here one request at a time, and between two of them.
#[tokio::test]
async fn a_server_that_is_killed_fails_what_it_had() {
    let servers = [Upstream::ok(), Upstream::ok(), Upstream::ok()];
    let urls = servers.each_ref().map(Upstream::url);
    let gateway = gateway(&urls, "", "").await;
    let client = Client::new(gateway.address);
    for _ in 0..30 {
        assert_eq!(client.get("/").await.status, 200);
    }
    servers[1].stop().await;
    let mut failed = 0;
    for _ in 0..REQUESTS {
        failed += usize::from(client.get("/").await.status != 200);
    }
    println!("killed: {failed} of {REQUESTS} requests failed");
    assert!(failed <= 1, "{failed}");
    assert_eq!(metric(&gateway, "servers", "state=\"ejected\"").await, 1);
}
