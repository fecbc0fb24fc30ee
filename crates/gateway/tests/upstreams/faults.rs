//! One of three servers refuses connections, is killed, hangs, or answers 503. Counted are how many requests fail, and for how
//! long, one after the other, and from many clients at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tidegate_testkit::{Client, Port, Upstream, body};
use tokio::task::JoinSet;

use crate::group::{LONG, answering, gateway, hanging, metric};
use crate::support::asking::{get_each, until};

const REQUESTS: usize = 300;
const CLIENTS: usize = 16;
/// So many failures in a row, and a server is left out.
const EJECT: usize = 5;

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole as f64
}

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
    println!(
        "{name}: {failed} of {REQUESTS} requests failed ({:.1}%), {later} of them after the ejection",
        percent(failed, REQUESTS)
    );
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
async fn a_server_that_answers_503_fails_five_requests() {
    let bad = answering(503);
    assert_eq!(share("503", bad.url()).await, (5, 0));
}

/// At most what was under way when it died fails; here one request at a time, and between two of them.
#[tokio::test]
async fn a_server_that_is_killed_fails_what_it_had() {
    let servers = [Upstream::ok(), Upstream::ok(), Upstream::ok()];
    let urls = servers.each_ref().map(Upstream::url);
    let gateway = gateway(&urls, "", "").await;
    let client = Client::new(gateway.address);
    get_each(&client, 30, "/", &[], 200).await;
    servers[1].stop().await;
    let mut failed = 0;
    for _ in 0..REQUESTS {
        failed += usize::from(client.get("/").await.status != 200);
    }
    println!(
        "killed: {failed} of {REQUESTS} requests failed ({:.1}%)",
        percent(failed, REQUESTS)
    );
    assert!(failed <= 1, "{failed}");
    assert_eq!(metric(&gateway, "servers", "state=\"ejected\"").await, 1);
}

/// A server that needs a moment, so that it has requests when it is killed.
fn at_work() -> Upstream {
    Upstream::start(|_| async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        http::Response::new(body::full("answer"))
    })
}

/// One request after the other until `enough` are sent by all; when each of them began, and whether it was answered 200.
async fn sends(
    gateway: SocketAddr,
    sent: Arc<AtomicUsize>,
    enough: Arc<AtomicUsize>,
) -> Vec<(Instant, bool)> {
    let client = Client::new(gateway);
    let mut seen = Vec::new();
    while sent.fetch_add(1, Ordering::Relaxed) < enough.load(Ordering::Relaxed) {
        let began = Instant::now();
        seen.push((began, client.get("/").await.status == 200));
    }
    seen
}

/// Many clients send all the time, to two good servers and one that has `trouble` or is given it. Returns how many requests failed,
/// and how many of these began after the ejection.
async fn share_at_once(name: &str, bad: String, trouble: impl AsyncFnOnce()) -> (usize, usize) {
    let good = [at_work(), at_work()];
    let urls = [good[0].url(), bad, good[1].url()];
    let upstream = format!("eject: {{ after: {EJECT}, for: 1h }}");
    // As long as no good server needs on a busy machine.
    let timeouts = "timeouts: { upstream: 1s, connect: 5s }";
    let gateway = gateway(&urls, &upstream, timeouts).await;
    let (sent, enough) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicUsize::new(usize::MAX)),
    );
    let clients = (0..CLIENTS).map(|_| sends(gateway.address, sent.clone(), enough.clone()));
    let clients: JoinSet<_> = clients.collect();
    trouble().await;
    until("it is left out", async || {
        metric(&gateway, "ejections_total", "").await > 0
    })
    .await;
    let ejected = Instant::now();
    enough.store(
        sent.load(Ordering::Relaxed) + REQUESTS.max(2 * CLIENTS),
        Ordering::Relaxed,
    );
    let seen = clients.join_all().await.concat();
    let failed = seen.iter().filter(|(_, ok)| !ok);
    let later = failed.clone().filter(|(began, _)| *began > ejected);
    let (failed, later) = (failed.count(), later.count());
    let after = seen.iter().filter(|(began, _)| *began > ejected).count();
    assert!(after >= REQUESTS - CLIENTS, "{name}: {after} came after it");
    println!(
        "{name}, {CLIENTS} clients at once: {failed} of {} requests failed ({:.1}%), {later} of the {after} after the ejection",
        seen.len(),
        percent(failed, seen.len()),
    );
    (failed, later)
}

#[tokio::test]
async fn nobody_of_many_notices_a_server_that_refuses_connections() {
    let nobody = Port::reserve();
    let url = format!("http://{}", nobody.addr());
    assert_eq!(share_at_once("refused", url, async || {}).await, (0, 0));
}

/// What was under way there when it was left out fails as well.
#[tokio::test]
async fn of_many_at_once_only_those_fail_that_it_had() {
    const MOST: usize = EJECT + CLIENTS - 1;
    for (name, bad) in [("hung", hanging()), ("503", answering(503))] {
        let (failed, later) = share_at_once(name, bad.url(), async || {}).await;
        assert!((EJECT..=MOST).contains(&failed), "{name}: {failed}");
        assert_eq!(later, 0, "{name}");
    }
}

/// Each that fails had a connection that was cut, and there was one for each client at most.
#[tokio::test]
async fn of_many_at_once_those_fail_that_a_killed_server_had() {
    let killed = at_work();
    let (failed, later) = share_at_once("killed", killed.url(), async || {
        killed.wait_for(100, LONG).await;
        killed.stop().await;
    })
    .await;
    assert!(failed <= CLIENTS, "{failed}");
    assert_eq!(later, 0);
}
