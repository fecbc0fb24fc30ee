//! Several gateways on one Redis: together they admit the limit, to the request, whatever happens to the scripts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use tidegate_testkit::{Client, RedisServer, Upstream, body};
use tokio::task::JoinSet;

use crate::kit::exact;
use crate::support::GatewayProcess;

/// Two gateways that know users by a header. In `yaml`, UPSTREAM stands for the upstream's URL.
async fn pair(redis: &RedisServer, upstream: &Upstream, yaml: &str) -> [GatewayProcess; 2] {
    let yaml = format!(
        "{}secret: the same for both\nclients: [{{ user_id: {{ header: X-User-Id }} }}]\ntrusted_proxies: [127.0.0.0/8]\n{}",
        exact(redis),
        yaml.replace("UPSTREAM", &upstream.url())
    );
    let (one, two) = tokio::join!(GatewayProcess::start(&yaml), GatewayProcess::start(&yaml));
    [one, two]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_share_one_limit_exactly() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let yaml = "
limits:
  hundred: { token_bucket: { capacity: 100, refill: 1/d } }
routes:
  - { path: /**, upstream: UPSTREAM, limits: [hundred] }
";
    let gateways = pair(&redis, &upstream, yaml).await;
    let clients = (0..64).map(|i| Client::new(gateways[i % 2].address));
    let clients: Vec<_> = clients.map(Arc::new).collect();
    for round in 0..20 {
        let mut connections = JoinSet::new();
        for client in clients.clone() {
            connections.spawn(async move {
                let mut admitted = 0;
                for _ in 0..4 {
                    let request = Request::get("/").header("x-user-id", format!("rider-{round}"));
                    let answer = client.request(request.body(body::empty()).unwrap()).await;
                    assert!([200, 429].contains(&answer.status.as_u16()), "{answer:?}");
                    admitted += usize::from(answer.status == 200);
                }
                admitted
            });
        }
        let admitted: usize = connections.join_all().await.iter().sum();
        assert_eq!(admitted, 100, "in round {round}");
    }
    assert_eq!(upstream.count(), 2_000);
}

/// What became of the requests of each user: asked, and admitted.
type Tally = Arc<Mutex<HashMap<usize, (usize, usize)>>>;

/// Every 60 requests come from another user, whose limit is 20, so that budgets are begun and used up all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_forgets_its_scripts_is_noticed_by_nobody() {
    const FLUSHES: usize = 15;
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let yaml = "
limits:
  bucket: { token_bucket: { capacity: 20, refill: 1/d } }
  log: { sliding_window_log: { limit: 20, window: 1d } }
  counter: { sliding_window_counter: { limit: 30, window: 31d } }
routes:
  - { path: /bucket, upstream: UPSTREAM, limits: [bucket] }
  - { path: /several, upstream: UPSTREAM, limits: [log, counter] }
";
    let gateways = pair(&redis, &upstream, yaml).await;
    let (next, tally) = (Arc::new(AtomicUsize::new(0)), Tally::default());
    let done = Arc::new(AtomicBool::new(false));
    let mut connections = JoinSet::new();
    for i in 0..32 {
        let client = Client::new(gateways[i % 2].address);
        let (next, tally, done) = (next.clone(), tally.clone(), done.clone());
        connections.spawn(async move {
            while !done.load(Ordering::Relaxed) {
                let user = next.fetch_add(1, Ordering::Relaxed) / 60;
                let path = ["/bucket", "/several"][user % 2];
                let request = Request::get(path).header("x-user-id", user.to_string());
                let answer = client.request(request.body(body::empty()).unwrap()).await;
                assert!([200, 429].contains(&answer.status.as_u16()), "{answer:?}");
                let mut tally = tally.lock().unwrap();
                let (asked, admitted) = tally.entry(user).or_default();
                *asked += 1;
                *admitted += usize::from(answer.status == 200);
            }
        });
    }
    let mut every = tokio::time::interval(Duration::from_millis(100));
    let mut connection = redis.connect().await;
    for _ in 0..FLUSHES {
        every.tick().await;
        assert!(
            !connection
                .command(&["SCRIPT", "FLUSH"])
                .await
                .unwrap()
                .is_error()
        );
    }
    done.store(true, Ordering::Relaxed);
    connections.join_all().await;
    let tally = std::mem::take(&mut *tally.lock().unwrap());
    assert!(
        tally.len() > 4,
        "too few requests to tell anything: {}",
        tally.len()
    );
    for (user, (asked, admitted)) in &tally {
        assert_eq!(
            *admitted,
            20.min(*asked),
            "of {asked} requests of user {user}"
        );
    }
    let loads = redis.command(&["INFO", "commandstats"]).await;
    assert!(
        loads.as_str().contains("cmdstat_eval:"),
        "no script was ever lost"
    );
}
