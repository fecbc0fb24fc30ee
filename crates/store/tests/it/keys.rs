//! What stands in Redis: keys that hold no names, and that are gone soon after they no longer matter.

use std::collections::{BTreeSet, HashMap};

use tidegate_core::{Micros, Quota, Rate, TokenBucket};
use tidegate_store::{Charge, Limit, Outcome};
use tidegate_testkit::{RedisConnection, RedisServer, Reply};

use crate::support::{
    DAY, HOUR, MS, Random, SECOND, charge, error_of, every_algorithm, exact_store, limit, now,
    quiet_window, state_key, wait_for,
};

/// A key may outlive its use by as long again, and so much.
const MARGIN: Micros = 10 * MS;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_key_lives_as_long_as_it_matters_and_at_most_twice_that() {
    let server = RedisServer::start().await;
    let store = exact_store(&server).await;
    let mut redis = server.connect().await;
    let windows = [1, 5, 50, 700].map(|ms| ms * MS);
    let windows = windows
        .into_iter()
        .chain([SECOND, HOUR - 1, HOUR, 31 * DAY]);
    let limits: Vec<Limit> = windows.flat_map(limits_of).collect();
    let mut random = Random(1);
    let mut needed = HashMap::new();
    let mut seen = 0;
    for _ in 0..3_000 {
        let client = random.between(1, 5);
        let charges: Vec<Charge<'_>> = (0..random.between(1, 3))
            .map(|_| random.next() as usize % limits.len())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .map(|index| {
                let most = limits[index].quota().capacity();
                charge(
                    &limits[index],
                    client,
                    random.pick(&[1, 1, 2, most]).min(most),
                )
            })
            .collect();
        let decision = store.decide(&charges).await;
        assert_eq!(error_of(&decision), None);
        if decision.outcome == Outcome::Refused {
            continue;
        }
        for (charge, verdict) in charges.iter().zip(decision.verdicts.iter().flatten()) {
            let key = state_key(charge);
            let need = Need {
                from: decision.now,
                until: decision.now + charge.limit.lease().unwrap_or(verdict.reset),
            };
            seen += u64::from(need.check(&mut redis, &key).await);
            needed.insert(key, need);
        }
    }
    // The first look of each is the sharp one; whatever still stands at the end must be one of them, with a time to live.
    let keys = scan(&mut redis).await;
    for key in &keys {
        let ttl = redis.command(&["PTTL", key]).await.unwrap().as_int();
        assert!(ttl != -1, "{key} stays for ever");
        needed[key].check(&mut redis, key).await;
    }
    assert!(
        seen > 1_000 && keys.len() >= 5 * 3,
        "{seen} looks, {} keys at the end",
        keys.len()
    );
}

#[tokio::test]
async fn a_stamp_that_was_moved_gets_a_time_to_live_too() {
    let server = RedisServer::start().await;
    let store = exact_store(&server).await;
    let mut redis = server.connect().await;
    for (client, quota) in (0..).zip(every_algorithm(3, HOUR)) {
        let limit = limit("ahead", quota);
        let charge = charge(&limit, client, 1);
        let key = state_key(&charge);
        let ahead = now() + DAY;
        let start = ahead - ahead % HOUR;
        let planted: Vec<String> = match quota {
            Quota::TokenBucket(bucket) => debt(ahead, bucket.meter().numbers()),
            Quota::LeakyBucket(bucket) => debt(ahead, bucket.meter().numbers()),
            Quota::FixedWindow(_) | Quota::CalendarWindow(_) => {
                vec!["SET".into(), format!("{start} 3")]
            }
            Quota::SlidingWindowCounter(_) | Quota::FairShare(_) => {
                vec!["SET".into(), format!("{start} 3 1")]
            }
            Quota::SlidingWindowLog(_) => {
                let stamp = ahead.to_string();
                vec!["RPUSH".into(), stamp.clone(), stamp.clone(), stamp]
            }
            Quota::Concurrency(_) => {
                let holds = ["a", "b", "c"].map(|id| format!("{ahead} {id}/1*1"));
                let words = holds.iter().flat_map(|hold| hold.split(' '));
                ["ZADD", "-3", "held"]
                    .into_iter()
                    .chain(words)
                    .map(str::to_owned)
                    .collect()
            }
        };
        let mut words = vec![planted[0].as_str(), &key];
        words.extend(planted[1..].iter().map(String::as_str));
        assert!(!redis.command(&words).await.unwrap().is_error());

        let decision = store.decide(&[charge]).await;
        let verdict = decision.verdicts[0].unwrap();
        assert_eq!(decision.outcome, Outcome::Refused, "{quota:?}");
        assert!(verdict.reset <= 2 * HOUR && verdict.retry_after <= 2 * HOUR);
        let need = Need {
            from: decision.now,
            until: decision.now + limit.lease().unwrap_or(verdict.reset),
        };
        assert!(need.check(&mut redis, &key).await, "{key} is gone");
    }
}

#[tokio::test]
async fn a_key_says_whose_it_is_only_to_who_knows() {
    let server = RedisServer::start().await;
    let store = exact_store(&server).await;
    let mut redis = server.connect().await;
    let quotas = every_algorithm(4, quiet_window());
    let limits = quotas.map(|quota| limit(quota.algorithm(), quota));
    for client in [1, 2] {
        let mut charges: Vec<Charge<'_>> = limits
            .iter()
            .map(|limit| charge(limit, client, 1))
            .collect();
        charges[0].key.rest = [0x5e; 16];
        assert_eq!(store.decide(&charges).await.outcome, Outcome::Admitted);
    }
    let keys = scan(&mut redis).await;
    assert_eq!(keys.len(), 2 * limits.len());
    let mut tags: HashMap<&str, usize> = HashMap::new();
    for key in &keys {
        let (tag, name) = parts(key).unwrap_or_else(|| panic!("{key} has another form"));
        let limit = limits.iter().find(|limit| limit.name() == name).unwrap();
        let kind = limit.quota().kind();
        let rest = key.split_once(&format!("}}:{name}:{kind}")).unwrap().1;
        let expected = match limit.lease() {
            _ if name == limits[0].name() => format!(":{}", "5e".repeat(16)),
            Some(_) => ":held".to_owned(),
            None => String::new(),
        };
        assert_eq!(rest, expected, "{key}");
        *tags.entry(tag).or_default() += 1;
    }
    // One hash tag per client, whatever the limit.
    assert_eq!(
        tags.into_values().collect::<Vec<_>>(),
        [limits.len(), limits.len()]
    );
}

#[tokio::test]
async fn keys_go_when_their_time_is_over() {
    let server = RedisServer::start().await;
    let store = exact_store(&server).await;
    let limits: Vec<Limit> = [5, 20, 200]
        .into_iter()
        .flat_map(|ms| limits_of(ms * MS))
        .collect();
    for client in 0..20 {
        for limits in limits.chunks(4) {
            let charges: Vec<Charge<'_>> = limits
                .iter()
                .map(|limit| charge(limit, client, 1))
                .collect();
            store.decide(&charges).await;
        }
    }
    wait_for("an empty database", async || {
        let size = server.command(&["DBSIZE"]).await.as_int();
        (size == 0).then_some(())
    })
    .await;
}

/// From when until when a key matters.
#[derive(Clone, Copy, Debug)]
struct Need {
    from: Micros,
    until: Micros,
}

impl Need {
    /// Whether the key is still there; if it is, it must go within the bound, if not, it must not have gone early.
    async fn check(self, redis: &mut RedisConnection, key: &str) -> bool {
        let expires = redis.command(&["PEXPIRETIME", key]).await.unwrap().as_int();
        if expires == -2 {
            let asked = redis_time(redis).await;
            assert!(asked >= self.until, "{key} is gone at {asked}: {self:?}");
            return false;
        }
        assert!(expires > 0, "{key} stays for ever: {self:?}");
        // Redis keeps a key to the end of the millisecond in which it expires.
        let expires = expires as Micros * MS;
        assert!(
            expires + MS >= self.until,
            "{key} goes at {expires}: {self:?}"
        );
        let most = self.until + (self.until - self.from) + MARGIN;
        assert!(expires <= most, "{key} stays until {expires}: {self:?}");
        true
    }
}

/// Limits of every algorithm for one window, some of them small, and buckets whose rate is not their window's.
fn limits_of(window: Micros) -> Vec<Limit> {
    let mut limits: Vec<Limit> = every_algorithm(4, window)
        .into_iter()
        // A calendar's windows are told to Redis, and are a day long at least.
        .filter(|quota| window >= SECOND || !matches!(quota, Quota::CalendarWindow(_)))
        .map(|quota| limit(&format!("{}-{window}", quota.algorithm()), quota))
        .collect();
    let rate = Rate {
        count: 999_983,
        per: window,
    };
    let uneven = TokenBucket::new(1_000_000, rate).unwrap();
    limits.push(limit(&format!("uneven-{window}"), uneven));
    limits
}

/// The words that plant a full debt.
fn debt(at: Micros, [capacity, weight, ..]: [u64; 4]) -> Vec<String> {
    vec!["SET".into(), format!("{} {at} {weight}", capacity * weight)]
}

/// The tag and the limit's name of a key `tidegate:{32 hex}:name:…`.
fn parts(key: &str) -> Option<(&str, &str)> {
    let (tag, rest) = key.strip_prefix("tidegate:{")?.split_once("}:")?;
    let is_hash = tag.len() == 32 && tag.bytes().all(|b| b"0123456789abcdef".contains(&b));
    let (name, _) = rest.split_once(':')?;
    is_hash.then_some((tag, name))
}

async fn scan(redis: &mut RedisConnection) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    let mut cursor = "0".to_owned();
    loop {
        let words = ["SCAN", &cursor, "COUNT", "1000"];
        let reply = redis.command(&words).await.unwrap();
        let [next, found] = reply.as_array() else {
            panic!("{reply:?}");
        };
        keys.extend(found.as_array().iter().map(|key| key.as_str().to_owned()));
        cursor = next.as_str().to_owned();
        if cursor == "0" {
            return keys;
        }
    }
}

async fn redis_time(redis: &mut RedisConnection) -> Micros {
    let reply = redis.command(&["TIME"]).await.unwrap();
    let parts: Vec<i64> = reply.as_array().iter().map(Reply::as_int).collect();
    parts[0] as Micros * SECOND + parts[1] as Micros
}
