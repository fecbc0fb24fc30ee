//! Who takes a request, when all are well.

use std::sync::Arc;

use tidegate_testkit::{Client, Upstream, body};
use tokio::sync::Semaphore;

use crate::group::{LONG, becomes, counts, gateway, written};
use crate::support::TestGateway;
use crate::support::asking::get_each;

#[tokio::test]
async fn servers_take_turns() {
    let servers = [Upstream::ok(), Upstream::ok(), Upstream::ok()];
    let urls = servers.each_ref().map(Upstream::url);
    let gateway = gateway(&urls, "", "").await;
    let client = Client::new(gateway.address);
    for round in 1..=4 {
        get_each(&client, 3, "/", &[], 200).await;
        assert_eq!(counts(&servers.each_ref()), [round; 3]);
    }
}

#[tokio::test]
async fn weights_are_shares() {
    let servers = [Upstream::ok(), Upstream::ok()];
    let [light, heavy] = servers.each_ref().map(Upstream::url);
    let group = format!("\"{light}\", {{ url: \"{heavy}\", weight: 4 }}");
    for (balance, expected) in [("round_robin", [10, 40]), ("least_requests", [50, 50])] {
        let before = counts(&servers.each_ref());
        let gateway = written(&group, &format!("balance: {balance}"), "").await;
        let client = Client::new(gateway.address);
        get_each(&client, 50, "/", &[], 200).await;
        let after = counts(&servers.each_ref());
        let got: Vec<_> = after.iter().zip(before).map(|(a, b)| a - b).collect();
        // One request at a time is the least for whoever has more weight.
        let expected = match balance {
            "least_requests" => [0, 50],
            _ => expected,
        };
        assert_eq!(got, expected, "{balance}");
    }
}

#[tokio::test]
async fn who_has_the_fewest_requests_takes_the_next() {
    let free = Arc::new(Semaphore::new(0));
    let waits = free.clone();
    let slow = Upstream::start(move |_| {
        let waits = waits.clone();
        async move {
            waits.acquire().await.unwrap().forget();
            http::Response::new(body::full("slow"))
        }
    });
    let quick = Upstream::ok();
    let gateway = gateway(&[slow.url(), quick.url()], "balance: least_requests", "").await;
    let address = gateway.address;
    // Equally many, so both have had one after two; one of these hangs.
    let hanging = tokio::spawn(async move {
        let client = Client::new(address);
        [client.get("/").await.status, client.get("/").await.status]
    });
    slow.wait_for(1, LONG).await;
    let before = quick.count();
    let client = Client::new(address);
    for _ in 0..10 {
        assert_eq!(client.get("/").await.text(), r#"{"ok":true}"#);
    }
    assert_eq!((slow.count(), quick.count()), (1, before + 10));
    free.add_permits(2);
    assert_eq!(hanging.await.unwrap(), [200, 200]);
}

#[tokio::test]
async fn routes_share_an_upstream() {
    let server = Upstream::ok();
    let url = server.url();
    let yaml = format!(
        "upstreams: {{ group: {{ servers: [\"{url}\"] }} }}\n\
         routes:\n  - {{ path: /a, upstream: group }}\n  - {{ path: /b, upstream: group }}\n  \
         - {{ path: /c, upstream: \"{url}\" }}\n  - {{ path: /d, upstream: \"{url}\" }}\n"
    );
    let gateway = TestGateway::start(&yaml).await;
    let client = Client::new(gateway.address);
    for path in ["/a", "/b", "/a", "/b", "/c", "/d", "/c", "/d"] {
        assert_eq!(client.get(path).await.status, 200);
    }
    assert_eq!(server.connections(), 2);
}

/// A name has all its addresses: `localhost` may have two of them, of which one refuses.
#[tokio::test]
async fn a_name_stands_for_its_addresses() {
    let server = Upstream::ok();
    let url = server.url().replace("127.0.0.1", "localhost");
    let gateway = gateway(&[url], "", "").await;
    let client = Client::new(gateway.address);
    get_each(&client, 20, "/", &[], 200).await;
    assert_eq!(server.count(), 20);
}

#[tokio::test]
async fn a_name_that_nobody_knows_is_a_502() {
    let known = Upstream::ok();
    let nowhere = "http://nobody.invalid:1".to_owned();
    let alone = gateway(std::slice::from_ref(&nowhere), "", "").await;
    let answer = Client::new(alone.address).get("/").await;
    assert_eq!(answer.status, 502);
    assert!(answer.text().contains("upstream_unreachable"));
    let beside = gateway(&[nowhere, known.url()], "", "").await;
    becomes(&beside, "servers", "state=\"healthy\"", 1).await;
    let client = Client::new(beside.address);
    get_each(&client, 5, "/", &[], 200).await;
}
