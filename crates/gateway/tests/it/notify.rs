//! Budgets that reach a threshold are reported: once over all gateways, signed, and whatever the receiver does.

mod faults;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tidegate_testkit::body::empty;
use tidegate_testkit::{Client, RedisServer, Upstream};
use tokio::sync::watch;

use crate::kit::{LONG, exact, get, on_both_stores, sample, sample_becomes, until};
use crate::support::commands::{explained, written};
use crate::support::{GatewayProcess, TestGateway};

const KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
const REPORTED: &str = "tidegate_budget_events_total{limit=\"it\",result=\"reported\"}";
const DROPPED: &str = "tidegate_budget_events_total{limit=\"it\",result=\"dropped\"}";

/// A receiver of events, which answers what it is told to.
struct Receiver {
    upstream: Upstream,
    messages: Arc<Mutex<Vec<(HeaderMap, Bytes)>>>,
    /// The status of the next answers. `None`: no answer.
    status: watch::Sender<Option<StatusCode>>,
}

impl Receiver {
    fn start() -> Self {
        let messages = Arc::<Mutex<Vec<_>>>::default();
        let (status, answers) = watch::channel(Some(StatusCode::NO_CONTENT));
        let got = messages.clone();
        let upstream = Upstream::start(move |request| {
            let (got, mut answers) = (got.clone(), answers.clone());
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                got.lock().unwrap().push((head.headers, body));
                let status = *answers.wait_for(Option::is_some).await.unwrap();
                let mut response = Response::new(empty());
                *response.status_mut() = status.unwrap();
                response
            }
        });
        Self {
            upstream,
            messages,
            status,
        }
    }

    /// The messages so far, each with its ID.
    fn messages(&self) -> Vec<(String, Value)> {
        let messages = self.messages.lock().unwrap();
        let messages = messages.iter().map(|(headers, body)| {
            let header = |name: &str| headers[name].to_str().unwrap();
            let (id, time) = (header("webhook-id"), header("webhook-timestamp"));
            let key = hmac::Key::new(hmac::HMAC_SHA256, &STANDARD.decode(KEY).unwrap());
            let signed = [id.as_bytes(), b".", time.as_bytes(), b".", body].concat();
            let signature = header("webhook-signature").strip_prefix("v1,").unwrap();
            hmac::verify(&key, &signed, &STANDARD.decode(signature).unwrap()).unwrap();
            assert_eq!(header("content-type"), "application/json");
            (id.to_owned(), serde_json::from_slice(body).unwrap())
        });
        messages.collect()
    }

    /// How often each (client, threshold) was told, with different IDs only once.
    fn told(&self) -> HashMap<(String, u64), usize> {
        let mut told = HashMap::<_, HashSet<String>>::new();
        for (id, message) in self.messages() {
            let data = &message["data"];
            let client = data["client"].as_str().unwrap_or_default().to_owned();
            let threshold = data["threshold"].as_u64().unwrap();
            told.entry((client, threshold)).or_default().insert(id);
        }
        told.into_iter()
            .map(|(event, ids)| (event, ids.len()))
            .collect()
    }
}

fn yaml(store: &str, limit: &str, at: &str, url: &str, upstream: &Upstream) -> String {
    format!(
        "{store}secret: the same on all gateways
trusted_proxies: [127.0.0.0/8]
clients: [{{ user_id: {{ header: x-user }} }}, {{ ip: {{}} }}]
limits:
  it: {{ {limit}, notify: {{ at: [{at}], webhook: \"{url}/hook\", secret: whsec_{KEY} }} }}
routes: [{{ path: /**, upstream: \"{}\", limits: [it] }}]
",
        upstream.url()
    )
}

const TEN: &str = "fixed_window: { limit: 10, window: 31d }";

async fn ask(client: &Client, user: &str) -> u16 {
    get(client, "/", &[("x-user", user)]).await
}

#[tokio::test]
async fn each_threshold_is_reported_once() {
    on_both_stores(async |store| {
        let (receiver, upstream) = (Receiver::start(), Upstream::ok());
        let url = receiver.upstream.url();
        let yaml = yaml(store, TEN, "80%, 100%, 50%", &url, &upstream);
        let gateway = TestGateway::start(&yaml).await;
        let client = Client::new(gateway.address);
        for count in 1..=10 {
            assert_eq!(ask(&client, "ann").await, 200);
            let expected = match count {
                ..5 => 0,
                5..8 => 1,
                8..10 => 2,
                _ => 3,
            };
            if expected > 0 {
                sample_becomes(gateway.admin, REPORTED, expected).await;
            }
        }
        for _ in 0..5 {
            assert_eq!(ask(&client, "ann").await, 429);
        }
        // The events of others are their own.
        for _ in 0..5 {
            ask(&client, "bob").await;
        }
        sample_becomes(gateway.admin, REPORTED, 4).await;
        let messages = receiver.messages();
        let told = |index: usize| {
            let data = &messages[index].1["data"];
            (
                data["client"].clone(),
                data["threshold"].clone(),
                data["used"].clone(),
            )
        };
        assert_eq!(told(0), ("user_id:ann".into(), 50.into(), 5.into()));
        assert_eq!(told(1), ("user_id:ann".into(), 80.into(), 8.into()));
        assert_eq!(told(2), ("user_id:ann".into(), 100.into(), 10.into()));
        assert_eq!(told(3), ("user_id:bob".into(), 50.into(), 5.into()));
        let (_, first) = &messages[0];
        assert_eq!(first["type"], "budget.threshold");
        assert_eq!(first["data"]["limit"], "it");
        assert_eq!(first["data"]["capacity"], 10);
        assert_eq!(first["data"]["per"], serde_json::json!(["client"]));
        for time in [&first["timestamp"], &first["data"]["resets_at"]] {
            let time: jiff::Timestamp = time.as_str().unwrap().parse().unwrap();
            assert!(time > jiff::Timestamp::now() - jiff::SignedDuration::from_hours(1));
        }
        until("an event of the page", async || {
            let events = crate::status::status(gateway.admin).await.events;
            events.iter().any(|event| event.kind == "budget")
        })
        .await;
        gateway.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_cost_that_passes_several_thresholds_causes_an_event_for_each() {
    on_both_stores(async |store| {
        let (receiver, upstream) = (Receiver::start(), Upstream::ok());
        let url = receiver.upstream.url();
        // A bucket that fills within a day, without windows.
        let bucket = "token_bucket: { capacity: 10, refill: 10/d }, cost: 9";
        let yaml = yaml(store, bucket, "50%, 80%, 100%", &url, &upstream);
        let gateway = TestGateway::start(&yaml).await;
        let client = Client::new(gateway.address);
        assert_eq!(ask(&client, "ann").await, 200);
        sample_becomes(gateway.admin, REPORTED, 2).await;
        // A refusal counts as 100 %.
        assert_eq!(ask(&client, "ann").await, 429);
        sample_becomes(gateway.admin, REPORTED, 3).await;
        let all = [50, 80, 100].map(|at| (("user_id:ann".to_owned(), at), 1));
        assert_eq!(receiver.told(), HashMap::from(all));
        // Later periods of the same threshold have other IDs, although they have no windows.
        for (id, message) in receiver.messages() {
            let (_, time) = id.rsplit_once('_').unwrap();
            let time = jiff::Timestamp::from_microsecond(time.parse().unwrap()).unwrap();
            let told = message["timestamp"].as_str().unwrap();
            let told: jiff::Timestamp = told.parse().unwrap();
            assert!(told.duration_until(time).as_secs().abs() <= 1, "{told}");
        }
        gateway.stop().await;
    })
    .await;
}

/// Two gateways see the same budgets at the same time; a reload in between forgets nothing.
#[tokio::test]
async fn two_gateways_report_each_event_once() {
    const CLIENTS: usize = 150;
    let redis = RedisServer::start().await;
    let (receiver, upstream) = (Receiver::start(), Upstream::ok());
    let url = receiver.upstream.url();
    let yaml = yaml(&exact(&redis), TEN, "80%, 100%", &url, &upstream);
    let gateways = [
        TestGateway::start(&yaml).await,
        TestGateway::start(&yaml).await,
    ];
    let clients = gateways.each_ref().map(|it| Client::new(it.address));
    for round in 0..6 {
        for user in 0..CLIENTS {
            let user = format!("user-{user}");
            let [one, other] = &clients;
            tokio::join!(ask(one, &user), ask(other, &user));
        }
        if round == 4 {
            gateways[0].reload(&yaml).await;
        }
    }
    until("all events", async || receiver.told().len() == 2 * CLIENTS).await;
    until("no event waits", async || {
        let mut waiting = 0;
        for gateway in &gateways {
            waiting += sample(gateway.admin, "tidegate_budget_events_waiting").await;
        }
        waiting == 0
    })
    .await;
    assert_eq!(receiver.messages().len(), 2 * CLIENTS);
    let mut reported = 0;
    for gateway in &gateways {
        reported += sample(gateway.admin, REPORTED).await;
        assert_eq!(sample(gateway.admin, DROPPED).await, 0);
    }
    assert_eq!(reported, 2 * CLIENTS as u64);
    for gateway in gateways {
        gateway.stop().await;
    }
}

/// Without a webhook the event is a line of the log. A limit that clients share names no client.
#[tokio::test]
async fn without_a_webhook_an_event_is_a_line_of_the_log() {
    let upstream = Upstream::ok();
    let yaml = format!(
        "store: memory\nlimits: {{ it: {{ {TEN}, per: [], notify: {{ at: [100%] }} }} }}\n\
         routes: [{{ path: /**, upstream: \"{}\", limits: [it] }}]\n",
        upstream.url()
    );
    let gateway = GatewayProcess::start(&yaml).await;
    let client = Client::new(gateway.address);
    for _ in 0..10 {
        assert_eq!(get(&client, "/", &[]).await, 200);
    }
    let line = gateway
        .process
        .wait_for_line("a budget has reached a threshold", LONG);
    let line: Value = serde_json::from_str(&line.await).unwrap();
    assert_eq!(
        (&line["at"], &line["used"], &line["capacity"]),
        (&100.into(), &10.into(), &10.into())
    );
    assert_eq!(line["client"], Value::Null);
}

/// Held units that are given back cause no event. Used units cause one without a further request.
#[tokio::test]
async fn an_event_waits_until_held_units_are_used() {
    on_both_stores(async |store| {
        let receiver = Receiver::start();
        let (cost, costs) = watch::channel(None::<&'static str>);
        let upstream = Upstream::start(move |_| {
            let mut costs = costs.clone();
            async move {
                let cost = *costs.wait_for(Option::is_some).await.unwrap();
                let mut response = Response::new(empty());
                let cost = cost.unwrap().parse().unwrap();
                response.headers_mut().insert("x-cost", cost);
                response
            }
        });
        let url = receiver.upstream.url();
        let limit = "fixed_window: { limit: 100, window: 31d }, cost: { response_header: x-cost, reserve: 85 }";
        let yaml = yaml(store, limit, "80%", &url, &upstream);
        let gateway = TestGateway::start(&yaml).await;
        let client = Arc::new(Client::new(gateway.address).knows("x-cost"));
        let asking = |user: &'static str| {
            let client = client.clone();
            tokio::spawn(async move { ask(&client, user).await })
        };
        const WAITING: &str = "tidegate_budget_events_waiting";
        let first = asking("ann");
        sample_becomes(gateway.admin, WAITING, 1).await;
        cost.send_replace(Some("5"));
        assert_eq!(first.await.unwrap(), 200);
        sample_becomes(gateway.admin, WAITING, 0).await;
        assert!(receiver.messages().is_empty());
        cost.send_replace(None);
        let second = asking("ann");
        sample_becomes(gateway.admin, WAITING, 1).await;
        cost.send_replace(Some("80"));
        assert_eq!(second.await.unwrap(), 200);
        sample_becomes(gateway.admin, REPORTED, 1).await;
        let messages = receiver.messages();
        assert_eq!((messages.len(), &messages[0].1["data"]["used"]), (1, &85.into()));
        gateway.stop().await;
    })
    .await;
}

#[test]
fn explain_names_the_shares_and_the_prices() {
    let limit = "fixed_window: { limit: 1000, window: 31d }, cost: { response_json: used, reserve: 20, \
                 per_model: { json: model, prices: { \"large-*\": 15, small: 0.5 } } }, per: [client, \"json:model\"], allow: [small]";
    let yaml = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nstore: memory\nlimits: {{ it: {{ {limit}, notify: {{ at: [100%, 80%] }} }} }}\n\
         routes: [{{ path: /**, upstream: \"http://127.0.0.1:9000\", limits: [it] }}]\n"
    );
    let (folder, _) = written(&yaml);
    let lines = explained(&folder, &["POST", "/v1"]).join("\n");
    for part in [
        "per client and json:model",
        "reserves 20, times the price by model (large-* 15, small 0.5), at most 300",
        "used in the answer's body, times the price by model",
        "; events to the log at 80%, 100%",
    ] {
        assert!(lines.contains(part), "{part}\n{lines}");
    }
}
