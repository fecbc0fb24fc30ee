//! Two gateways on one Redis.

use std::time::{Duration, Instant};

use tidegate_testkit::Reply;

use super::*;
use crate::kit::exact;
use crate::support::GatewayProcess;

/// So soon after the answer a change is in force on all gateways.
const PROMISED: Duration = Duration::from_secs(2);

fn yaml(redis: &RedisServer, upstream: &Upstream) -> String {
    let yaml = limited(&format!("{}secret: the same for both\n", exact(redis)));
    yaml.replace("UPSTREAM", &upstream.url())
}

/// Status of a request of this user at each gateway.
async fn statuses(gateways: &[SocketAddr], id: &str) -> Vec<u16> {
    let mut statuses = Vec::new();
    for gateway in gateways {
        let client = Client::fresh(*gateway);
        statuses.push(get(&client, "/", &[("x-user-id", id)]).await);
    }
    statuses
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_override_is_in_force_on_both_gateways_in_time() {
    const ROUNDS: usize = 50;
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let yaml = yaml(&redis, &upstream);
    let (one, two) = tokio::join!(TestGateway::start(&yaml), TestGateway::start(&yaml));
    let both = [&one, &two];
    let addresses = [one.address, two.address];
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let id = format!("rider-{round}");
        let (changed, other) = (both[round % 2], both[1 - round % 2]);
        let name = format!("user_id:{id}");
        set(changed.admin, &name, block()).await;
        let answered = Instant::now();
        // On this one at once.
        let client = Client::fresh(changed.address);
        assert_eq!(get(&client, "/", &[("x-user-id", &id)]).await, 403);
        let client = Client::new(other.address);
        until("it is in force on the other gateway", async || {
            get(&client, "/other", &[("x-user-id", &id)]).await == 403
        })
        .await;
        times.push(answered.elapsed());
    }
    times.sort_unstable();
    let (median, longest) = (times[ROUNDS / 2], times[ROUNDS - 1]);
    eprintln!("in force on the other gateway after {median:?}, at the longest after {longest:?}");
    assert!(longest < PROMISED, "{longest:?}");
    assert_eq!(statuses(&addresses, "someone").await, [200, 200]);
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overrides_survive_restarts_of_gateways_and_a_redis_without_data() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let yaml = yaml(&redis, &upstream);
    let start = async || GatewayProcess::start(&yaml).await;
    let (mut one, mut two) = tokio::join!(start(), start());
    set(one.admin, "user_id:1", block()).await;
    set(two.admin, "user_id:2", block()).await;
    clear(one.admin, "user_id:2").await;
    let holds = async |gateways: &[&GatewayProcess], what: &str| {
        let addresses: Vec<_> = gateways.iter().map(|it| it.address).collect();
        until(what, async || {
            let blocked = statuses(&addresses, "1").await;
            let cleared = statuses(&addresses, "2").await;
            blocked.iter().all(|it| *it == 403) && cleared.iter().all(|it| *it != 403)
        })
        .await;
    };
    holds(&[&one, &two], "on both").await;
    // One restarts: from its first request on.
    drop(one);
    one = start().await;
    assert_eq!(statuses(&[one.address], "1").await, [403]);
    holds(&[&one, &two], "one restarted").await;
    // Both restart: Redis has it.
    drop((one, two));
    (one, two) = tokio::join!(start(), start());
    assert_eq!(statuses(&[one.address, two.address], "1").await, [403, 403]);
    // Redis restarts without data: the gateways have it, and give it back.
    redis.restart().await;
    holds(&[&one, &two], "Redis restarted").await;
    until("Redis has it again", async || {
        let found = redis
            .command(&["HEXISTS", "tidegate:{overrides}", "user_id:1"])
            .await;
        found.as_int() == 1
    })
    .await;
    drop(one);
    let three = start().await;
    holds(&[&two, &three], "a gateway after that").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_override_ends_on_both_within_a_second_of_each_other() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let yaml = yaml(&redis, &upstream);
    let (one, two) = tokio::join!(TestGateway::start(&yaml), TestGateway::start(&yaml));
    let short = json!({ "action": "block", "for": "3s" });
    set(one.admin, "user_id:1", short).await;
    let ended = async |gateway: SocketAddr| {
        let client = Client::new(gateway);
        until("it is in force", async || {
            get(&client, "/", &[("x-user-id", "1")]).await == 403
        })
        .await;
        until("it ends", async || {
            get(&client, "/", &[("x-user-id", "1")]).await != 403
        })
        .await;
        Instant::now()
    };
    let (first, second) = tokio::join!(ended(one.address), ended(two.address));
    let apart = first.max(second) - first.min(second);
    assert!(apart < Duration::from_secs(1), "{apart:?}");
    one.stop().await;
    two.stop().await;
}

/// Who is blocked or exempt costs Redis nothing, and who has another plan what everybody costs: one decision.
#[tokio::test]
async fn an_override_costs_no_command_of_redis() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let gateway = TestGateway::start(&yaml(&redis, &upstream)).await;
    let client = Client::new(gateway.address);
    set(gateway.admin, "198.51.100.0/24", block()).await;
    set(gateway.admin, "user_id:free", exempt()).await;
    set(gateway.admin, "user_id:gold", plan("gold")).await;
    let asked = async || sample(gateway.admin, "tidegate_store_duration_seconds_count").await;
    let before = asked().await;
    for _ in 0..7 {
        let from = ("x-forwarded-for", "198.51.100.7");
        assert_eq!(get(&client, "/", &[from]).await, 403);
        assert_eq!(get(&client, "/", &[("x-user-id", "free")]).await, 200);
    }
    assert_eq!(asked().await, before);
    for _ in 0..7 {
        assert_eq!(get(&client, "/", &[("x-user-id", "gold")]).await, 200);
    }
    assert_eq!(asked().await, before + 7);
    gateway.stop().await;
}

/// A request in `mode: leased` is decided here: an override returns what was borrowed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn borrowed_slices_are_returned() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let yaml = yaml(&redis, &upstream).replace(
        "fixed_window: { limit: 3, window: 31d } }\n",
        "token_bucket: { capacity: 1000, refill: 1/d }, mode: leased }\n",
    );
    let yaml = yaml.replace(
        "fixed_window: { limit: 9, window: 31d }",
        "token_bucket: { capacity: 9000, refill: 1/d }",
    );
    let gateway = TestGateway::start(&yaml).await;
    let client = Client::new(gateway.address);
    // A slice that nobody uses is returned after some seconds, too. So other clients, which stopped earlier, must still have theirs. Once
    // a slow machine may take longer than these seconds.
    let mut recalled = 0;
    for round in 0..6 {
        let mut slices = Vec::new();
        for name in ["one", "two", "three", "blocked"] {
            let known = keys_of_slices(&redis).await;
            let id = format!("{name}-{round}");
            for _ in 0..40 {
                assert_eq!(get(&client, "/", &[("x-user-id", &id)]).await, 200);
            }
            let keys = keys_of_slices(&redis).await.into_iter();
            slices.extend(keys.filter(|key| !known.contains(key)));
        }
        let [one, two, three, blocked] = &*slices else {
            panic!("{slices:?}");
        };
        set(gateway.admin, &format!("user_id:blocked-{round}"), block()).await;
        until("all that was not spent is returned", async || {
            !is_out(&redis, blocked).await
        })
        .await;
        let others = [one, two, three].map(|key| is_out(&redis, key));
        let mut are_out = true;
        for is_out in others {
            are_out &= is_out.await;
        }
        recalled += usize::from(are_out);
    }
    assert!(recalled >= 5, "{recalled} of 6");
    gateway.stop().await;
}

/// The keys under which Redis knows who has borrowed of a budget.
async fn keys_of_slices(redis: &RedisServer) -> Vec<String> {
    let keys = redis.command(&["KEYS", "*:slices"]).await;
    let keys = keys.as_array().iter();
    keys.map(|key| key.as_str().to_owned()).collect()
}

/// Whether anything of a budget is out.
async fn is_out(redis: &RedisServer, key: &str) -> bool {
    let slices = redis.command(&["HVALS", key]).await;
    // "session call settled out lapse": what is returned stays known until it would lapse, with nothing out.
    let out = |slice: &Reply| slice.as_str().split(' ').nth(3) != Some("0");
    slices.as_array().iter().any(out)
}
