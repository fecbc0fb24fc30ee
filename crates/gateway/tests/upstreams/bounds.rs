//! How many requests a server has at once, and how many wait.

use tidegate_testkit::{Client, Speaks, Upstream};
use tokio::task::JoinSet;

use crate::group::{LONG, gateway};
use crate::support::asking::get_each;
use crate::support::held::held_one_by_one;

#[tokio::test]
async fn what_is_too_much_for_a_server_waits_and_what_is_too_much_to_wait_is_a_503() {
    for speaks in [Speaks::Http1, Speaks::Http2] {
        let (server, free) = held_one_by_one(speaks);
        let bounds = "max_connections: 2, max_waiting: 3";
        let patient = "timeouts: { connect: 30s }";
        let gateway = gateway(&[server.url()], bounds, patient).await;
        let address = gateway.address;
        let mut asked = JoinSet::new();
        for _ in 0..6 {
            asked.spawn(async move {
                let answer = Client::new(address).get("/").await;
                let wait = answer.header("retry-after").map(str::to_owned);
                (answer.status.as_u16(), answer.text().to_owned(), wait)
            });
        }
        // Five have a place or wait for one, so the sixth is refused at once.
        let (status, text, wait) = asked.join_next().await.unwrap().unwrap();
        assert_eq!((status, wait.as_deref()), (503, Some("1")), "{text}");
        assert!(text.contains("upstream_busy"), "{text}");
        server.wait_for(2, LONG).await;
        assert_eq!(server.count(), 2);
        for ended in 1..=3 {
            free.add_permits(1);
            server.wait_for(2 + ended, LONG).await;
            assert_eq!(server.count(), 2 + ended, "one ends, one begins");
        }
        free.add_permits(2);
        let rest = asked.join_all().await;
        assert!(rest.iter().all(|(status, ..)| *status == 200), "{rest:?}");
        assert!(server.connections() <= 2);
    }
}

#[tokio::test]
async fn who_waits_too_long_is_answered() {
    let (server, _free) = held_one_by_one(Speaks::Http1);
    let bounds = "max_connections: 1";
    let gateway = gateway(&[server.url()], bounds, "timeouts: { connect: 100ms }").await;
    let address = gateway.address;
    let first = tokio::spawn(async move { Client::new(address).get("/").await });
    server.wait_for(1, LONG).await;
    assert_eq!(Client::new(address).get("/").await.status, 503);
    // Whoever leaves gives the place back.
    first.abort();
    let waiting = tokio::spawn(async move { Client::new(address).get("/").await });
    server.wait_for(2, LONG).await;
    waiting.abort();
}

#[tokio::test]
async fn a_server_with_a_free_place_comes_first() {
    let (full, _free) = held_one_by_one(Speaks::Http1);
    let quick = Upstream::ok();
    let bounds = "max_connections: 1";
    // Whoever waited for the full one would wait for long.
    let patient = "timeouts: { connect: 1h }";
    let gateway = gateway(&[full.url(), quick.url()], bounds, patient).await;
    let address = gateway.address;
    let first = tokio::spawn(async move { Client::new(address).get("/").await });
    full.wait_for(1, LONG).await;
    let client = Client::new(address);
    get_each(&client, 10, "/", &[], 200).await;
    assert_eq!((full.count(), quick.count()), (1, 10));
    first.abort();
}

/// One server is slow, and no request waits for it while the other one has a place.
#[tokio::test]
async fn a_request_takes_the_first_place_that_comes_free_at_any_server() {
    for speaks in [Speaks::Http1, Speaks::Http2] {
        let (slow, _never) = held_one_by_one(speaks.clone());
        let (quick, free) = held_one_by_one(speaks);
        let patient = "timeouts: { connect: 1h }";
        let urls = [slow.url(), quick.url()];
        let gateway = gateway(&urls, "max_connections: 1", patient).await;
        let address = gateway.address;
        let mut asked = JoinSet::new();
        for _ in 0..8 {
            asked.spawn(async move { Client::new(address).get("/").await.status });
        }
        slow.wait_for(1, LONG).await;
        for expected in 1..=7 {
            quick.wait_for(expected, LONG).await;
            free.add_permits(1);
            assert_eq!(asked.join_next().await.unwrap().unwrap(), 200);
        }
        assert_eq!((slow.count(), quick.count()), (1, 7));
    }
}

/// One route waits for less than the file says, another for as long.
#[tokio::test]
async fn a_route_has_times_of_its_own() {
    let hung = crate::group::hanging();
    let yaml = format!(
        "timeouts: {{ upstream: 1h }}\nroutes:\n  \
         - {{ path: /short, upstream: \"{0}\", timeouts: {{ upstream: 50ms }} }}\n  \
         - {{ path: /long, upstream: \"{0}\" }}\n",
        hung.url()
    );
    let gateway = crate::support::TestGateway::start(&yaml).await;
    let address = gateway.address;
    let long = tokio::spawn(async move { Client::new(address).get("/long").await });
    hung.wait_for(1, LONG).await;
    let answer = Client::new(address).get("/short").await;
    assert_eq!(answer.status, 504);
    assert!(!long.is_finished());
    long.abort();
}
