//! What these tests share: stores, limits, charges and random numbers.

use std::time::Duration;

use tidegate_core::{
    FixedWindow, LeakyBucket, Quota, Rate, SlidingWindowCounter, SlidingWindowLog, TokenBucket,
};
use tidegate_store::redis::RedisOptions;
use tidegate_store::{Charge, Limit, OnFailure, RedisStore, Subject};
use tidegate_testkit::RedisServer;

pub(crate) const MS: u64 = 1_000;
pub(crate) const SECOND: u64 = 1_000_000;

/// A Redis store for exactness: nothing but Redis decides, however slow the machine.
pub(crate) async fn exact_store(server: &RedisServer) -> RedisStore {
    connect(&server.url(), Duration::from_secs(5)).await
}

pub(crate) async fn connect(url: &str, timeout: Duration) -> RedisStore {
    let options = RedisOptions {
        url: url.to_owned(),
        timeout,
        key_prefix: "tidegate".to_owned(),
    };
    RedisStore::connect(options).await.unwrap()
}

pub(crate) fn limit(name: &str, quota: impl Into<Quota>) -> Limit {
    Limit::new(name, quota, OnFailure::Closed)
}

pub(crate) fn charge(limit: &Limit, client: u64, cost: u64) -> Charge<'_> {
    let mut tag = [0xab; 16];
    tag[8..].copy_from_slice(&client.to_be_bytes());
    let rest = [0; 16];
    let subject = Subject { tag, rest };
    Charge {
        limit,
        subject,
        cost,
    }
}

/// A quota of every algorithm: so much, per so long, in us.
pub(crate) fn every_algorithm(limit: u64, window: u64) -> [Quota; 5] {
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
    ]
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
