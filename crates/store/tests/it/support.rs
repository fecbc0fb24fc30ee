//! What these tests share: stores, limits, charges, random numbers, and waiting for what must come.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_core::{
    Calendar, CalendarWindow, Concurrency, FixedWindow, LeakyBucket, Micros, Quota, Rate,
    SlidingWindowCounter, SlidingWindowLog, TokenBucket,
};
use tidegate_store::redis::RedisOptions;
use tidegate_store::{
    Charge, Decision, Key, Limit, MemoryStore, OnFailure, Outcome, RedisStore, Store, StoreError,
    Via,
};
use tidegate_testkit::RedisServer;

pub(crate) const MS: u64 = 1_000;
pub(crate) const SECOND: u64 = 1_000_000;
pub(crate) const HOUR: u64 = 3_600 * SECOND;
pub(crate) const DAY: u64 = 24 * HOUR;

/// How long something may take that will come; only a broken one takes as long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn memory_store() -> Store {
    Store::Memory(Arc::new(MemoryStore::default()))
}

/// As [`exact_store`], for whom either will do.
pub(crate) async fn redis_store(server: &RedisServer) -> Store {
    Store::Redis(Arc::new(exact_store(server).await))
}

/// A Redis store for exactness: nothing but Redis decides, however slow the machine.
pub(crate) async fn exact_store(server: &RedisServer) -> RedisStore {
    connect_exact(&server.url(), Duration::from_secs(5)).await
}

/// A store that asks Redis again after every refusal.
pub(crate) async fn connect_exact(url: &str, timeout: Duration) -> RedisStore {
    let options = RedisOptions {
        remember_refusals: false,
        ..options(url, timeout)
    };
    RedisStore::connect(options).await.unwrap()
}

pub(crate) async fn connect(url: &str, timeout: Duration) -> RedisStore {
    RedisStore::connect(options(url, timeout)).await.unwrap()
}

/// What a gateway alone on this Redis says.
pub(crate) fn options(url: &str, timeout: Duration) -> RedisOptions {
    RedisOptions {
        url: url.to_owned(),
        tls: None,
        timeout,
        key_prefix: "tidegate".to_owned(),
        gateways: None,
        sync_every: Duration::from_millis(100),
        remember_refusals: true,
    }
}

pub(crate) fn limit(name: &str, quota: impl Into<Quota>) -> Limit {
    Limit::new(name, quota, OnFailure::Closed)
}

/// The key of all that Redis keeps of a charge without a block: of `concurrency` what requests hold.
pub(crate) fn state_key(charge: &Charge<'_>) -> String {
    let key = charge.redis_key("tidegate");
    match charge.limit.quota() {
        Quota::Concurrency(_) => format!("{key}:held"),
        _ => key,
    }
}

pub(crate) fn charge(limit: &Limit, client: u64, cost: u64) -> Charge<'_> {
    let mut tag = [0xab; 16];
    tag[8..].copy_from_slice(&client.to_be_bytes());
    let rest = [0; 16];
    let key = Key { tag, rest };
    Charge {
        limit,
        key,
        cost,
        origin: None,
    }
}

/// Waits until Redis decides about this client.
pub(crate) async fn decides(store: &RedisStore, client: u64) {
    let probe = Limit::new(
        "probe",
        every_algorithm(1_000_000, HOUR)[2],
        OnFailure::Open,
    );
    wait_for("a decision by Redis", async || {
        let decision = store.decide(&[charge(&probe, client, 1)]).await;
        (decision.via == Via::Store).then_some(())
    })
    .await;
}

/// Five of five are admitted and the sixth is not, for each of these clients, by Redis and under every algorithm.
pub(crate) async fn counts_exactly(store: &RedisStore, clients: std::ops::Range<u64>) {
    for client in clients {
        let limits = every_algorithm(5, quiet_window()).map(|quota| limit("five", quota));
        for turn in 0..6 {
            let charges = [0, 1, 2, 3, 4].map(|nth: usize| charge(&limits[nth], client, 1));
            let decision = store.decide(&charges).await;
            assert_eq!((decision.via, error_of(&decision)), (Via::Store, None));
            let expected = if turn < 5 {
                Outcome::Admitted
            } else {
                Outcome::Refused
            };
            assert_eq!(decision.outcome, expected, "client {client}, turn {turn}");
        }
    }
}

/// Why Redis did not decide, if it did not.
pub(crate) fn error_of(decision: &Decision) -> Option<StoreError> {
    decision.call.as_ref().and_then(|call| call.error.clone())
}

/// The code of an error that Redis answered, if it did.
pub(crate) fn code_of(error: &StoreError) -> Option<&str> {
    match error {
        StoreError::Refused(reply) | StoreError::Login(reply) => Some(reply.code()),
        _ => None,
    }
}

/// Whether Redis decides on limits of every algorithm.
pub(crate) async fn ready(store: &RedisStore) -> Result<(), StoreError> {
    let limits = every_algorithm(5, HOUR).map(|quota| limit("ready", quota));
    store.ready(limits.iter()).await
}

/// The time by this machine's clock, which is also Redis's.
pub(crate) fn now() -> Micros {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_micros() as Micros
}

/// A long window that does not turn within the next hour, so that nothing that was used is freed during a test.
pub(crate) fn quiet_window() -> Micros {
    let lengths = [31 * DAY, 30 * DAY, 29 * DAY];
    let quiet = lengths
        .into_iter()
        .find(|window| window - now() % window > HOUR);
    quiet.unwrap()
}

/// Asks again and again until it gets an answer.
pub(crate) async fn wait_for<T>(what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A quota of every algorithm: so much, per so long, in us.
pub(crate) fn every_algorithm(limit: u64, window: u64) -> [Quota; 7] {
    let rate = Rate {
        count: limit,
        per: window,
    };
    [
        TokenBucket::new(limit, rate).unwrap().into(),
        LeakyBucket::new(limit, rate).unwrap().into(),
        FixedWindow::new(limit, window).unwrap().into(),
        SlidingWindowLog::new(limit, window).unwrap().into(),
        SlidingWindowCounter::new(limit, window).unwrap().into(),
        CalendarWindow::new(limit, even_calendar(window))
            .unwrap()
            .into(),
        Concurrency::new(limit, window).unwrap().into(),
    ]
}

/// Of every algorithm that can be lent.
pub(crate) fn lendable(limit: u64, window: u64) -> [Quota; 4] {
    let [bucket, _, fixed, log, counter, ..] = every_algorithm(limit, window);
    [bucket, fixed, log, counter]
}

/// A calendar whose windows are all as long, and which so is a fixed window; around the time of the tests.
pub(crate) fn even_calendar(window: u64) -> &'static Calendar {
    static KNOWN: Mutex<BTreeMap<u64, &'static Calendar>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap();
    known.entry(window).or_insert_with(|| {
        let current = now() / window;
        // Windows beyond the last start are as long.
        let starts: Vec<u64> = (current - 100..=current).map(|nth| nth * window).collect();
        Box::leak(Box::new(
            Calendar::new(format!("even/{window}"), starts).unwrap(),
        ))
    })
}

/// Random numbers that can be had again from their seed (SplitMix64, Steele et al. 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.next() as usize % from.len()]
    }
}

/// How often Redis ran each command, by its own count.
pub(crate) async fn calls(server: &RedisServer) -> BTreeMap<String, u64> {
    let reply = server.command(&["INFO", "commandstats"]).await;
    let lines = reply.as_str().lines();
    let counts = lines.filter_map(|line| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name.to_owned(), rest.split_once(',')?.0.parse().ok()?))
    });
    counts.collect()
}
