//! What was reserved, where the answer tells no cost or tells it late.

use std::time::{Duration, Instant};

use super::*;

#[tokio::test]
async fn an_answer_that_does_not_tell_its_cost_may_cost_all() {
    let json = Whole::json;
    let bomb = gzip(&format!("{}{USAGE}", " ".repeat(32 << 20)));
    for (whole, method, cost) in [
        (json(USAGE), Method::GET, 42),
        (json("{}"), Method::GET, 1_000),
        (
            json(r#"{"usage":{"total_tokens":null}}"#),
            Method::GET,
            1_000,
        ),
        (Whole::new("text/plain", USAGE), Method::GET, 1_000),
        (Whole::encoded("br", USAGE), Method::GET, 1_000),
        (Whole::encoded("gzip", bomb), Method::GET, 1_000),
        (json(USAGE).with_status(206), Method::GET, 1_000),
        // Nothing that is a success with a body.
        (json("{}").with_status(500), Method::GET, 10),
        (json("").with_status(204), Method::GET, 10),
        (json("").with_status(304), Method::GET, 10),
        (json(USAGE), Method::HEAD, 10),
        (Whole::new("text/plain", USAGE), Method::HEAD, 10),
    ] {
        let name = whole.name();
        let upstream = answering(vec![whole]);
        let limit = LIMIT.replace("reserve: 10", "reserve: 10, missing: all");
        let yaml = one_limit("store: memory\n", &limit, &upstream);
        let gateway = TestGateway::start(&yaml).await;
        let client = Client::new(gateway.address).knows("content-encoding");
        send(&client, method.clone(), "/0", &[]).await;
        leaves(&gateway, 1_000 - cost, &format!("{method} {name}")).await;
        gateway.stop().await;
    }
}

/// While the answer passes, the bucket has refilled beside its hold. The real cost is charged whole at its end.
#[tokio::test]
async fn a_hold_does_not_drain_and_its_cost_is_charged_whole() {
    let limit = LIMIT.replace(
        "fixed_window: { limit: 1000, window: 31d }",
        "token_bucket: { capacity: 1000, refill: 20/s }",
    );
    on_both_stores(async |store| {
        let mut written = Written::speaking(Speaks::Http1);
        let yaml = one_limit(store, &limit, &written.upstream);
        let gateway = TestGateway::start(&yaml).await;
        let client = Client::new(gateway.address);
        let answer = client.open(get()).await;
        let (mut sender, body) = (written.body().await, answer.into_body());
        sender.send_data(CHUNK.into()).await.unwrap();
        // Longer than ten units take to be paid off.
        let charged = Instant::now();
        until("a second", async || {
            assert_eq!(left(gateway.admin).await, 990);
            charged.elapsed() > Duration::from_secs(1)
        })
        .await;
        let last = LAST.replace("42", "1800");
        sender.send_data(last.into()).await.unwrap();
        drop(sender);
        body.collect().await.unwrap();
        until("it is charged", async || left(gateway.admin).await == 0).await;
        let refused = Client::new(gateway.address).get("/").await;
        assert_eq!(refused.status, 429);
        // 1,800 and the 10 of the next request, of which 1,000 may be owed, at 20 a second.
        let wait = number(&refused, "retry-after").unwrap();
        assert!((30..=41).contains(&wait), "{wait} s");
        gateway.stop().await;
    })
    .await;
}
