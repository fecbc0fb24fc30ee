//! Receivers that fail or hang, and gateways that die.

use super::*;

/// The same event comes again until the receiver has taken it.
#[tokio::test]
async fn an_event_is_sent_until_the_receiver_takes_it() {
    let (receiver, upstream) = (Receiver::start(), Upstream::ok());
    let url = receiver.upstream.url();
    let yaml = yaml("store: memory\n", TEN, "80%", &url, &upstream);
    let gateway = TestGateway::start(&yaml).await;
    let client = Client::new(gateway.address);
    receiver.status.send_replace(Some(StatusCode::BAD_GATEWAY));
    for _ in 0..8 {
        assert_eq!(ask(&client, "ann").await, 200);
    }
    until("an attempt", async || !receiver.messages().is_empty()).await;
    receiver.status.send_replace(Some(StatusCode::FOUND));
    until("a second one", async || receiver.messages().len() > 1).await;
    assert_eq!(sample(gateway.admin, REPORTED).await, 0);
    receiver.upstream.stop().await;
    receiver.status.send_replace(Some(StatusCode::OK));
    receiver.upstream.restart();
    sample_becomes(gateway.admin, REPORTED, 1).await;
    let ids: HashSet<_> = receiver.messages().into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids.len(), 1);
    gateway.stop().await;
}

/// A receiver that does not answer delays neither requests nor other receivers.
#[tokio::test]
async fn a_receiver_that_hangs_delays_nobody_else() {
    let (hung, good, upstream) = (Receiver::start(), Receiver::start(), Upstream::ok());
    hung.status.send_replace(None);
    let (url, other) = (hung.upstream.url(), good.upstream.url());
    let yaml = yaml("store: memory\n", TEN, "10%", &url, &upstream);
    let yaml = yaml.replace("limits: [it]", "limits: [it, good]").replace(
        "routes:",
        &format!(
            "  good: {{ {TEN}, notify: {{ at: [10%], webhook: \"{other}/\", secret: whsec_{KEY} }} }}\nroutes:"
        ),
    );
    let gateway = TestGateway::start(&yaml).await;
    let client = Client::new(gateway.address);
    // More than may be sent at the same time.
    for user in 0..40 {
        assert_eq!(ask(&client, &format!("user-{user}")).await, 200);
    }
    until("the events of the good one", async || {
        good.told().len() == 40
    })
    .await;
    assert!(hung.messages().len() < 40, "{}", hung.messages().len());
    assert_eq!(sample(gateway.admin, REPORTED).await, 0);
    hung.status.send_replace(Some(StatusCode::OK));
    sample_becomes(gateway.admin, REPORTED, 40).await;
    gateway.stop().await;
}

/// A gateway dies while its receiver has not answered. A gateway that has seen the same budget reports the event.
#[tokio::test]
async fn another_gateway_takes_over_the_events_of_a_dead_one() {
    let redis = RedisServer::start().await;
    let (receiver, upstream) = (Receiver::start(), Upstream::ok());
    let url = receiver.upstream.url();
    let yaml = yaml(&exact(&redis), TEN, "80%", &url, &upstream);
    let mut dying = GatewayProcess::start(&yaml).await;
    let living = TestGateway::start(&yaml).await;
    receiver.status.send_replace(None);
    let client = Client::new(dying.address);
    for _ in 0..8 {
        assert_eq!(ask(&client, "ann").await, 200);
    }
    until("an attempt", async || !receiver.messages().is_empty()).await;
    // The living gateway sees the budget, too.
    assert_eq!(ask(&Client::new(living.address), "ann").await, 200);
    dying.process.kill().await;
    receiver.status.send_replace(Some(StatusCode::OK));
    sample_becomes(living.admin, REPORTED, 1).await;
    let ids: HashSet<_> = receiver.messages().into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids.len(), 1);
    living.stop().await;
}

/// What happens to the messages of an event.
#[derive(Debug, Default)]
struct Delivery {
    ids: HashSet<String>,
    attempts: usize,
    taken: usize,
}

/// Many budgets reach their thresholds over two gateways, while a receiver hangs and fails, and one gateway is killed. Each event has one
/// ID, and the receiver takes each event at least once, and twice only if the gateway died just after it had.
/// `TIDEGATE_EVENT_KEYS` sets the number of budgets.
#[tokio::test]
async fn no_event_is_lost_with_a_gateway_or_by_a_failing_receiver() {
    let keys = std::env::var("TIDEGATE_EVENT_KEYS").map_or(200, |text| text.parse().unwrap());
    let redis = RedisServer::start().await;
    let deliveries = Arc::<Mutex<HashMap<(String, u64), Delivery>>>::default();
    let all = deliveries.clone();
    let receiver = Upstream::start(move |request| {
        let all = all.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let message: Value = serde_json::from_slice(&body).unwrap();
            let data = &message["data"];
            let client = data["client"].as_str().unwrap().to_owned();
            let event = (client, data["threshold"].as_u64().unwrap());
            let id = head.headers["webhook-id"].to_str().unwrap().to_owned();
            // The ID is a hash, so its first digit is as good as a random number.
            let luck = id.as_bytes()["msg_".len()];
            let attempt = {
                let mut all = all.lock().unwrap();
                let delivery = all.entry(event.clone()).or_default();
                delivery.ids.insert(id);
                delivery.attempts += 1;
                delivery.attempts
            };
            let mut response = Response::new(empty());
            match (attempt, luck) {
                (1, b'0') => std::future::pending().await,
                (1 | 2, b'1'..=b'3') => *response.status_mut() = StatusCode::BAD_GATEWAY,
                _ => all.lock().unwrap().get_mut(&event).unwrap().taken += 1,
            }
            response
        }
    });
    let upstream = Upstream::ok();
    let yaml = yaml(&exact(&redis), TEN, "80%, 100%", &receiver.url(), &upstream);
    let mut dying = GatewayProcess::start(&yaml).await;
    let living = GatewayProcess::start(&yaml).await;
    let clients = [dying.address, living.address].map(|address| Arc::new(Client::new(address)));
    let [one, other] = clients;
    for first in (0..keys).step_by(50) {
        let users = (first..keys.min(first + 50)).map(|user| format!("user-{user}"));
        let asking = users.map(|user| {
            let (one, other) = (one.clone(), other.clone());
            tokio::spawn(async move {
                for _ in 0..5 {
                    tokio::join!(ask(&one, &user), ask(&other, &user));
                }
            })
        });
        for asked in asking.collect::<Vec<_>>() {
            asked.await.unwrap();
        }
    }
    dying.process.kill().await;
    // Each budget has one more request after the death.
    for user in 0..keys {
        assert_eq!(ask(&other, &format!("user-{user}")).await, 429);
    }
    let began = std::time::Instant::now();
    let all_taken = async || {
        let all = deliveries.lock().unwrap();
        all.len() == 2 * keys && all.values().all(|it| it.taken > 0)
    };
    while !all_taken().await && began.elapsed() < 4 * LONG {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let all = deliveries.lock().unwrap();
    assert_eq!(all.len(), 2 * keys);
    let lost = all.values().filter(|it| it.taken == 0).count();
    let twice = all.values().filter(|it| it.taken > 1).count();
    let several = all.values().filter(|it| it.ids.len() > 1).count();
    let attempts: usize = all.values().map(|it| it.attempts).sum();
    eprintln!(
        "{} events in {attempts} attempts, {twice} taken twice, {:.0?} after the death",
        all.len(),
        began.elapsed()
    );
    assert_eq!((lost, several), (0, 0));
    assert!(twice <= 16, "{twice}");
}
