//! Clients that leave: the rest of the answer is read for its cost, within bounds.

use super::*;
use crate::kit::send_get;

/// Waits until the gateway reads this number of answers without their clients.
async fn reads_alone(gateway: &TestGateway, answers: u64) {
    sample_becomes(gateway.admin, "tidegate_abandoned_exchanges", answers).await;
}

#[tokio::test]
async fn a_client_that_leaves_pays_what_the_rest_of_the_answer_tells() {
    on_both_stores(async |store| {
        let mut stays = 1_000;
        for speaks in [Speaks::Http1, Speaks::Http2] {
            let mut written = Written::speaking(speaks);
            let gateway = start(store, &written.upstream).await;
            if store.contains("memory") {
                stays = 1_000;
            }
            for protocol in [Client::h2 as fn(_) -> _, Client::new] {
                let client: Client = protocol(gateway.address);
                let answer = client.open(get()).await;
                let (mut sender, mut body) = (written.body().await, answer.into_body());
                takes(CHUNK, &mut sender, &mut body).await;
                drop((body, client));
                reads_alone(&gateway, 1).await;
                assert_eq!(left(gateway.admin).await, stays - 10, "as reserved");
                sender.send_data(CHUNK.into()).await.unwrap();
                sender.send_data(LAST.into()).await.unwrap();
                drop(sender);
                stays -= 42;
                leaves(&gateway, stays, "the rest").await;
                reads_alone(&gateway, 0).await;
            }
            assert_eq!(sample(gateway.admin, &told("read_on")).await, 2);
            gateway.stop().await;
        }
    })
    .await;
}

/// A client that leaves after the first of two numbers pays no less than what was reserved.
#[tokio::test]
async fn a_client_that_leaves_between_two_numbers_pays_the_reserve_at_least() {
    for (first, cost) in [(7, 10), (30, 30)] {
        let mut written = Written::speaking(Speaks::Http1);
        let weights = "response_json: { in: 1, out: 4 }";
        let limit = LIMIT.replace("response_json: usage.total_tokens", weights);
        let yaml = one_limit("store: memory\n", &limit, &written.upstream);
        let gateway = TestGateway::start(&yaml).await;
        let client = Client::new(gateway.address);
        let answer = client.open(get()).await;
        let (mut sender, mut body) = (written.body().await, answer.into_body());
        let event = format!("data: {{\"in\":{first}}}\n\n");
        takes(&event, &mut sender, &mut body).await;
        drop((body, client));
        leaves(&gateway, 1_000 - cost, &format!("{first} and no more")).await;
        gateway.stop().await;
    }
}

/// An upstream that falls silent, and one that sends without end, are read for 5 s and 1 MiB.
#[tokio::test]
async fn what_is_read_for_a_client_that_has_left_is_bounded() {
    for (missing, cost) in [("reserve", 10), ("all", 1_000)] {
        let mut written = Written::speaking(Speaks::Http1);
        let limit = LIMIT.replace("reserve: 10", &format!("reserve: 10, missing: {missing}"));
        let yaml = one_limit("store: memory\n", &limit, &written.upstream);
        let gateway = TestGateway::start(&yaml).await;
        for (nth, is_silent) in [true, false].into_iter().enumerate() {
            let client = Client::new(gateway.address);
            let answer = client.open(get()).await;
            let (mut sender, mut body) = (written.body().await, answer.into_body());
            takes(CHUNK, &mut sender, &mut body).await;
            drop((body, client));
            reads_alone(&gateway, 1).await;
            if !is_silent {
                // The number comes behind the bound. The gateway closes the connection before.
                let filler = CHUNK.repeat(1_000);
                for part in std::iter::repeat_n(&*filler, 50).chain([LAST]) {
                    if sender.send_data(part.to_owned().into()).await.is_err() {
                        break;
                    }
                }
            }
            reads_alone(&gateway, 0).await;
            let left_unread = nth as u64 + 1;
            assert_eq!(sample(gateway.admin, &told("left")).await, left_unread);
            let stays = 1_000_u64.saturating_sub(cost * left_unread);
            leaves(&gateway, stays, missing).await;
            if missing == "all" {
                // All is used, and no other request is admitted.
                break;
            }
        }
        gateway.stop().await;
    }
}

/// A gateway that stops does not wait for such answers: the line of the request is written, with what was reserved.
#[tokio::test]
async fn a_gateway_that_stops_reads_no_further() {
    let mut written = Written::speaking(Speaks::Http1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access.log");
    let settings = log(&file, "format: json, fields: [cost]");
    let yaml = one_limit("store: memory\n", LIMIT, &written.upstream);
    let gateway = TestGateway::start(&format!("log: {{ {settings} }}\n{yaml}")).await;
    let client = Client::new(gateway.address);
    let answer = client.open(get()).await;
    let (mut sender, mut body) = (written.body().await, answer.into_body());
    takes(CHUNK, &mut sender, &mut body).await;
    drop((body, client));
    reads_alone(&gateway, 1).await;
    gateway.stop().await;
    let lines = objects(&lines(&file));
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["cost"], 10);
}

/// The exchange goes on, and the answer's body is read, as if the client were there.
#[tokio::test]
async fn a_client_that_leaves_before_the_answer_begins_pays_what_its_body_tells() {
    on_both_stores(async |store| {
        let release = Arc::new(tokio::sync::Semaphore::new(0));
        let held = release.clone();
        let upstream = Upstream::start(move |_| {
            let held = held.clone();
            async move {
                held.acquire().await.unwrap().forget();
                let json = Response::builder().header(header::CONTENT_TYPE, JSON);
                json.body(full(USAGE)).unwrap()
            }
        });
        let gateway = start(store, &upstream).await;
        let mut client = RawClient::connect(gateway.address).await;
        send_get(&mut client, "/").await;
        upstream.wait_for(1, LONG).await;
        drop(client);
        reads_alone(&gateway, 1).await;
        release.add_permits(1);
        reads_alone(&gateway, 0).await;
        leaves(&gateway, 958, "leaving").await;
        assert_eq!(sample(gateway.admin, &told("read_on")).await, 1);
        gateway.stop().await;
    })
    .await;
}
