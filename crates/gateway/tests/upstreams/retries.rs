//! What is sent once more, and what is not.

use http::Method;
use tidegate_testkit::{Client, Upstream};

use crate::group::{answering, ask, counts, gateway, hanging, metric};
use crate::support::asking::get_each;

/// Nobody is left out, so that all that happens is a retry.
const ALL_IN: &str = "eject: none";
const TWICE: &str = "retries: { attempts: 2, budget: 100% }";

#[tokio::test]
async fn a_safe_request_is_tried_at_another_server() {
    for status in [502, 503, 504] {
        let (bad, good) = (answering(status), Upstream::ok());
        let gateway = gateway(&[bad.url(), good.url()], ALL_IN, TWICE).await;
        let client = Client::new(gateway.address);
        for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
            for _ in 0..2 {
                assert_eq!(ask(&client, method.clone(), "").await, 200);
            }
        }
        // After each retry it is the turn of the bad one again.
        assert_eq!(good.count(), 6);
        let retries = metric(&gateway, "retries_total", "outcome=\"sent\"").await;
        assert_eq!(retries, bad.count() as u64);
        assert!(retries >= 3);
    }
}

#[tokio::test]
async fn what_is_not_safe_or_has_a_body_is_not() {
    let bad = [answering(503), answering(503)];
    let urls = bad.each_ref().map(Upstream::url);
    let gateway = gateway(&urls, ALL_IN, TWICE).await;
    let client = Client::new(gateway.address);
    let requests = [
        (Method::POST, ""),
        (Method::PUT, "text"),
        (Method::DELETE, ""),
        (Method::GET, "text"),
    ];
    for (method, text) in requests {
        assert_eq!(ask(&client, method, text).await, 503);
    }
    assert_eq!(counts(&bad.each_ref()).iter().sum::<usize>(), 4);
}

#[tokio::test]
async fn answers_of_other_statuses_are_answers() {
    for status in [500, 501, 429, 404] {
        let bad = [answering(status), answering(status)];
        let urls = bad.each_ref().map(Upstream::url);
        let gateway = gateway(&urls, ALL_IN, TWICE).await;
        assert_eq!(Client::new(gateway.address).get("/").await.status, status);
        assert_eq!(counts(&bad.each_ref()).iter().sum::<usize>(), 1);
    }
}

#[tokio::test]
async fn without_retries_nothing_is_sent_twice() {
    let bad = [answering(503), answering(503)];
    let urls = bad.each_ref().map(Upstream::url);
    let gateway = gateway(&urls, ALL_IN, "").await;
    assert_eq!(Client::new(gateway.address).get("/").await.status, 503);
    assert_eq!(counts(&bad.each_ref()).iter().sum::<usize>(), 1);
}

#[tokio::test]
async fn attempts_are_the_most() {
    let bad = [503; 4].map(answering);
    let urls = bad.each_ref().map(Upstream::url);
    let several = gateway(&urls, ALL_IN, TWICE).await;
    assert_eq!(Client::new(several.address).get("/").await.status, 503);
    let counts = counts(&bad.each_ref());
    assert_eq!(counts.iter().sum::<usize>(), 3);
    assert_eq!(counts.iter().max(), Some(&1), "each time another one");
    // The only one may be well again.
    let alone = gateway(&urls[..1], ALL_IN, TWICE).await;
    let before = bad[0].count();
    assert_eq!(Client::new(alone.address).get("/").await.status, 503);
    assert_eq!(bad[0].count() - before, 3);
}

#[tokio::test]
async fn a_server_that_hangs_is_left_for_another_one() {
    let (hung, good) = (hanging(), Upstream::ok());
    let retries = "retries: { attempts: 1, timeout: 100ms }";
    let gateway = gateway(&[hung.url(), good.url()], ALL_IN, retries).await;
    let client = Client::new(gateway.address);
    for _ in 0..4 {
        // One attempt has so long, the last has all that is left.
        assert_eq!(client.get("/").await.status, 200);
    }
    assert!(hung.count() >= 2);
}

#[tokio::test]
async fn retries_are_a_share_of_the_requests() {
    let bad = [answering(503), answering(503)];
    let urls = bad.each_ref().map(Upstream::url);
    let gateway = gateway(&urls, ALL_IN, "retries: { attempts: 5, budget: 20% }").await;
    let client = Client::new(gateway.address);
    get_each(&client, 200, "/", &[], 503).await;
    let sent = counts(&bad.each_ref()).iter().sum::<usize>() as u64;
    let retries = metric(&gateway, "retries_total", "outcome=\"sent\"").await;
    assert_eq!(sent, 200 + retries);
    // A fifth, and one a second in the last ten seconds.
    assert!((20..=60).contains(&retries), "{retries}");
    let over = metric(&gateway, "retries_total", "outcome=\"over_budget\"").await;
    assert!(over >= 100, "{over}");
}

/// It is charged when it comes, not when it is sent.
#[tokio::test]
async fn a_request_that_is_tried_again_is_charged_once() {
    let (bad, good) = (answering(503), Upstream::ok());
    let yaml = format!(
        "limits: {{ ten: {{ fixed_window: {{ limit: 10, window: 1d }} }} }}\n\
         upstreams: {{ group: {{ servers: [\"{}\", \"{}\"], {ALL_IN} }} }}\n\
         routes: [{{ path: /**, upstream: group, limits: [ten], {TWICE} }}]\n",
        bad.url(),
        good.url()
    );
    let gateway = crate::support::TestGateway::start(&yaml).await;
    let client = Client::new(gateway.address);
    for left in (0..10).rev() {
        let answer = client.get("/").await;
        assert_eq!(answer.status, 200);
        let remaining = answer.header("x-ratelimit-remaining").unwrap();
        assert_eq!(remaining, left.to_string());
    }
    assert_eq!(client.get("/").await.status, 429);
    assert!(bad.count() > 0);
}
