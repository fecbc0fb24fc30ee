//! `lua/lease.lua` asked directly: calls that are lost, late, repeated or overtaken, slices that lapse, and state that is
//! gone.

use tidegate_core::Quota;
use tidegate_testkit::{RedisConnection, RedisServer, Reply};

use crate::support::{DAY, HOUR, MS, SECOND, every_algorithm, now, quiet_window};

const TERM: u64 = 5 * SECOND;

/// What a gateway tells and asks for; as in `redis::leases`.
#[derive(Clone, Copy)]
struct Ask {
    gateway: &'static str,
    cost: u64,
    session: u64,
    call: u64,
    spent: u64,
    unsettled: u64,
    kept: u64,
    lapse: u64,
    wanted: u64,
    term: u64,
}

const ASK: Ask = Ask {
    gateway: "one",
    cost: 0,
    session: 1,
    call: 1,
    spent: 0,
    unsettled: 0,
    kept: 0,
    lapse: 0,
    wanted: 0,
    term: TERM,
};

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lent {
    now: u64,
    admitted: bool,
    left: u64,
    reset: u64,
    retry_after: u64,
    out: u64,
    lapse: u64,
}

/// One limit's key in a Redis.
struct Key {
    redis: RedisConnection,
    quota: Quota,
    names: [String; 2],
}

fn text(quota: &Quota) -> String {
    let debt = include_str!("../../../../lua/debt.lua");
    let algorithm = match quota {
        Quota::TokenBucket(_) => include_str!("../../../../lua/token_bucket.lua"),
        Quota::FixedWindow(_) => include_str!("../../../../lua/fixed_window.lua"),
        Quota::SlidingWindowLog(_) => include_str!("../../../../lua/sliding_window_log.lua"),
        Quota::SlidingWindowCounter(_) => {
            include_str!("../../../../lua/sliding_window_counter.lua")
        }
        Quota::LeakyBucket(_) => unreachable!("no queue is lent"),
    };
    let lease = include_str!("../../../../lua/lease.lua");
    format!("#!lua\nlocal algorithms = {{}}\n{debt}{algorithm}{lease}")
}

fn numbers(quota: &Quota) -> Vec<u64> {
    match quota {
        Quota::TokenBucket(quota) => quota.meter().numbers().to_vec(),
        Quota::LeakyBucket(quota) => quota.meter().numbers().to_vec(),
        Quota::FixedWindow(quota) => quota.numbers().to_vec(),
        Quota::SlidingWindowLog(quota) => quota.numbers().to_vec(),
        Quota::SlidingWindowCounter(quota) => quota.numbers().to_vec(),
    }
}

impl Key {
    /// Asks, by a deadline on Redis's clock; nothing if the call was too late or overtaken.
    async fn ask_by(&mut self, deadline: u64, ask: Ask) -> Option<Lent> {
        let [state, slices] = &self.names;
        let text = text(&self.quota);
        let mut words: Vec<String> = ["EVAL", &text, "2", state, slices]
            .map(str::to_owned)
            .into();
        words.push(deadline.to_string());
        words.push(self.quota.algorithm().to_owned());
        words.push(ask.cost.to_string());
        words.extend(numbers(&self.quota).iter().map(u64::to_string));
        words.push(ask.gateway.to_owned());
        let told = [ask.session, ask.call, ask.spent, ask.unsettled];
        let wanted = [ask.kept, ask.lapse, ask.wanted, ask.term];
        words.extend(told.iter().chain(&wanted).map(u64::to_string));
        let reply = self.redis.command(&words).await.unwrap();
        assert!(!reply.is_error(), "{reply:?}");
        let row: Vec<i64> = reply.as_array().iter().map(Reply::as_int).collect();
        if row[1] == -1 {
            assert_eq!(row.len(), 2);
            return None;
        }
        let [now, admitted, left, reset, retry_after, out, lapse] = row.try_into().unwrap();
        Some(Lent {
            now: now as u64,
            admitted: admitted == 1,
            left: left as u64,
            reset: reset as u64,
            retry_after: retry_after as u64,
            out: out as u64,
            lapse: lapse as u64,
        })
    }

    async fn ask(&mut self, ask: Ask) -> Lent {
        self.ask_by(u64::MAX >> 11, ask).await.unwrap()
    }

    /// What could be lent to somebody new.
    async fn left(&mut self) -> u64 {
        let looking = Ask {
            gateway: "nobody",
            ..ASK
        };
        self.ask(looking).await.left
    }

    /// Everything that stands there.
    async fn content(&mut self) -> [Reply; 2] {
        let [state, slices] = self.names.clone();
        let get = match self.quota {
            Quota::SlidingWindowLog(_) => vec!["LRANGE", &state, "0", "-1"],
            _ => vec!["GET", &state],
        };
        let state = self.redis.command(&get).await.unwrap();
        let slices = self.redis.command(&["HGETALL", &slices]).await.unwrap();
        [state, slices]
    }

    async fn holders(&mut self) -> usize {
        self.content().await[1].as_array().len() / 2
    }
}

/// For each algorithm that can be lent: 100, which do not come back during a test.
async fn each(case: impl AsyncFn(Key)) {
    each_of(100, quiet_window(), case).await;
}

async fn each_of(limit: u64, window: u64, case: impl AsyncFn(Key)) {
    let server = RedisServer::start().await;
    for quota in every_algorithm(limit, window) {
        let kind = quota.algorithm();
        if kind == "leaky_bucket" {
            continue;
        }
        let names = [format!("{{a}}:{kind}"), format!("{{a}}:{kind}:slices")];
        let redis = server.connect().await;
        case(Key {
            redis,
            quota,
            names,
        })
        .await;
    }
}

async fn sleep(micros: u64) {
    tokio::time::sleep(std::time::Duration::from_micros(micros)).await;
}

#[tokio::test]
async fn what_is_lent_counts_as_spent_and_what_was_spent_is_charged() {
    each(async |mut key| {
        // A request alone is decided, and leaves no slice.
        let lent = key.ask(Ask { cost: 1, ..ASK }).await;
        assert!(lent.admitted && lent.reset > 0);
        assert_eq!((lent.left, lent.out, key.holders().await), (99, 0, 0));
        let lent = key
            .ask(Ask {
                call: 2,
                cost: 1,
                wanted: 10,
                ..ASK
            })
            .await;
        assert_eq!((lent.left, lent.out, lent.retry_after), (88, 10, 0));
        assert!(lent.lapse > lent.now && lent.lapse - lent.now <= TERM);
        assert_eq!(key.left().await, 88);
        // Seven of ten, and all of the rest is kept; then less; then nothing.
        let told = Ask {
            spent: 7,
            unsettled: 7,
            wanted: 10,
            ..ASK
        };
        let lent = key
            .ask(Ask {
                call: 3,
                kept: 3,
                ..told
            })
            .await;
        assert_eq!((lent.left, lent.out), (81, 10));
        let lent = key
            .ask(Ask {
                call: 4,
                unsettled: 0,
                kept: 1,
                wanted: 1,
                ..told
            })
            .await;
        assert_eq!((lent.left, lent.out), (90, 1));
        let lent = key
            .ask(Ask {
                call: 5,
                spent: 8,
                unsettled: 1,
                wanted: 0,
                ..told
            })
            .await;
        assert_eq!((lent.left, lent.out, key.holders().await), (90, 0, 0));
        // More than there is.
        let lent = key
            .ask(Ask {
                call: 6,
                cost: 91,
                ..ASK
            })
            .await;
        assert!(!lent.admitted && lent.retry_after > HOUR && lent.left == 90);
        let lent = key
            .ask(Ask {
                call: 7,
                cost: 90,
                ..ASK
            })
            .await;
        assert!(lent.admitted && lent.retry_after > HOUR && lent.left == 0);
    })
    .await;
}

#[tokio::test]
async fn others_find_a_share_and_small_rests_are_not_split() {
    each(async |mut key| {
        let mut out = Vec::new();
        for gateway in ["one", "two", "three", "four", "five", "six"] {
            let lent = key
                .ask(Ask {
                    gateway,
                    wanted: 80,
                    ..ASK
                })
                .await;
            out.push(lent.out);
        }
        assert_eq!(out, [50, 20, 20, 10, 0, 0]);
        let refused = key
            .ask(Ask {
                gateway: "seven",
                cost: 1,
                ..ASK
            })
            .await;
        assert!(!refused.admitted && refused.retry_after > 0);
        // Who returns something makes room.
        key.ask(Ask { call: 2, ..ASK }).await;
        assert_eq!(key.left().await, 50);
    })
    .await;
}

#[tokio::test]
async fn calls_that_are_late_repeated_or_overtaken_change_nothing() {
    each(async |mut key| {
        key.ask(Ask {
            call: 5,
            cost: 1,
            wanted: 10,
            ..ASK
        })
        .await;
        let before = key.content().await;
        let ask = Ask {
            cost: 1,
            spent: 3,
            unsettled: 3,
            wanted: 40,
            ..ASK
        };
        for call in [4, 5] {
            assert_eq!(key.ask_by(u64::MAX >> 11, Ask { call, ..ask }).await, None);
        }
        assert_eq!(key.ask_by(now() - 1, Ask { call: 6, ..ask }).await, None);
        assert_eq!(key.content().await, before);
        assert!(
            key.ask_by(now() + SECOND, Ask { call: 6, ..ask })
                .await
                .is_some()
        );
    })
    .await;
}

/// A gateway that has heard nothing knows of less than it has, never of more, and says so next time.
#[tokio::test]
async fn a_lost_answer_costs_its_request_and_nothing_else() {
    each(async |mut key| {
        key.ask(Ask { wanted: 10, ..ASK }).await;
        // Lost: seven are settled, one is charged, ten more are lent.
        key.ask(Ask {
            call: 2,
            cost: 1,
            spent: 7,
            unsettled: 7,
            wanted: 20,
            ..ASK
        })
        .await;
        assert_eq!(key.left().await, 100 - 7 - 1 - 20);
        // It keeps nothing, for so it was before it asked; what is settled already is not charged again.
        let lent = key
            .ask(Ask {
                call: 3,
                spent: 7,
                unsettled: 7,
                ..ASK
            })
            .await;
        assert_eq!((lent.left, lent.out), (100 - 7 - 1, 0));
    })
    .await;
}

#[tokio::test]
async fn a_slice_that_lapses_was_spent() {
    each(async |mut key| {
        let lent = key
            .ask(Ask {
                cost: 1,
                wanted: 10,
                term: 50 * MS,
                ..ASK
            })
            .await;
        assert_eq!(lent.lapse, lent.now + 50 * MS);
        sleep(60 * MS).await;
        assert_eq!(key.left().await, 89);
        assert_eq!(
            (key.left().await, key.holders().await),
            (89, 0),
            "charged once"
        );
        // What its gateway knows to have spent is part of it.
        let known = Ask {
            call: 2,
            spent: 6,
            unsettled: 6,
            lapse: lent.lapse,
            ..ASK
        };
        assert_eq!(key.ask(known).await.left, 89);
    })
    .await;
}

/// What was spent in a window that is over is nothing to the next one.
#[tokio::test]
async fn a_slice_dies_with_its_fixed_window() {
    each_of(100, 100 * MS, async |mut key| {
        if key.quota.algorithm() != "fixed_window" {
            return;
        }
        sleep(110 * MS - now() % (100 * MS)).await;
        let lent = key
            .ask(Ask {
                cost: 1,
                wanted: 10,
                ..ASK
            })
            .await;
        assert_eq!(lent.lapse % (100 * MS), 0);
        assert_eq!(lent.lapse, lent.now + lent.reset);
        sleep(100 * MS).await;
        let known = Ask {
            spent: 6,
            unsettled: 6,
            kept: 4,
            lapse: lent.lapse,
            ..ASK
        };
        let lent = key
            .ask(Ask {
                call: 2,
                wanted: 8,
                ..known
            })
            .await;
        assert_eq!((lent.left, lent.out), (92, 8));
    })
    .await;
}

/// Lapsed long ago: as much of it is left as there would be of any charge of that time.
#[tokio::test]
async fn a_slice_is_charged_when_it_lapsed_and_not_when_that_is_noticed() {
    each_of(100, 400 * MS, async |mut key| {
        key.ask(Ask {
            wanted: 40,
            term: 10 * MS,
            ..ASK
        })
        .await;
        sleep(230 * MS).await;
        let left = key.left().await;
        match key.quota.algorithm() {
            "token_bucket" => assert!((90..=100).contains(&left), "{left}"),
            "sliding_window_log" => assert!(left == 60 || left == 100, "{left}"),
            _ => assert!(left >= 60, "{left}"),
        }
        key.ask(Ask {
            gateway: "two",
            wanted: 40,
            term: 10 * MS,
            ..ASK
        })
        .await;
        sleep(1_000 * MS).await;
        assert_eq!(key.left().await, 100, "{:?}", key.quota);
        // Nothing of it stays.
        sleep(20 * MS).await;
        assert_eq!(key.content().await[1].as_array().len(), 0);
    })
    .await;
}

#[tokio::test]
async fn what_redis_has_forgotten_its_gateway_tells() {
    each(async |mut key| {
        let lent = key
            .ask(Ask {
                cost: 1,
                wanted: 10,
                ..ASK
            })
            .await;
        let [state, slices] = key.names.clone();
        key.redis.command(&["DEL", &state, &slices]).await.unwrap();
        let told = Ask {
            spent: 6,
            unsettled: 6,
            kept: 4,
            lapse: lent.lapse,
            ..ASK
        };
        let lent = key
            .ask(Ask {
                call: 2,
                wanted: 10,
                ..told
            })
            .await;
        assert_eq!((lent.left, lent.out), (100 - 6 - 10, 10));
        // After a reset the state alone is gone.
        key.redis.command(&["DEL", &state]).await.unwrap();
        assert_eq!(key.left().await, 90);
        let told = Ask {
            spent: 9,
            unsettled: 3,
            kept: 7,
            lapse: lent.lapse,
            ..ASK
        };
        let lent = key.ask(Ask { call: 3, ..told }).await;
        assert_eq!((lent.left, lent.out), (100 - 3 - 7, 7));
    })
    .await;
}

/// A gateway that begins anew has forgotten what it had.
#[tokio::test]
async fn what_a_gateway_has_forgotten_was_spent() {
    each(async |mut key| {
        key.ask(Ask { wanted: 10, ..ASK }).await;
        let lent = key
            .ask(Ask {
                session: 8,
                call: 9,
                cost: 1,
                wanted: 4,
                ..ASK
            })
            .await;
        assert_eq!(
            (lent.left, lent.out, key.holders().await),
            (100 - 10 - 1 - 4, 4, 1)
        );
    })
    .await;
}

#[tokio::test]
async fn changed_numbers_apply_to_what_is_lent() {
    each(async |mut key| {
        let (large, window) = (key.quota, quiet_window());
        key.ask(Ask {
            cost: 1,
            wanted: 40,
            ..ASK
        })
        .await;
        let quotas = every_algorithm(30, window);
        let small = quotas
            .iter()
            .find(|quota| quota.algorithm() == large.algorithm());
        key.quota = *small.unwrap();
        let refused = key
            .ask(Ask {
                gateway: "two",
                cost: 1,
                wanted: 5,
                ..ASK
            })
            .await;
        assert_eq!((refused.admitted, refused.left, refused.out), (false, 0, 0));
        let told = Ask {
            call: 2,
            spent: 35,
            unsettled: 35,
            kept: 5,
            ..ASK
        };
        let lent = key.ask(Ask { cost: 1, ..told }).await;
        assert!(!lent.admitted && lent.left == 0);
        assert!(lent.reset <= 3 * 31 * DAY);
    })
    .await;
}

/// A clock that steps back makes no slice lapse later than its term from now, and no key stay for ever.
#[tokio::test]
async fn a_clock_that_stepped_back() {
    each(async |mut key| {
        let [_, slices] = key.names.clone();
        let ahead = now() + 3 * HOUR;
        let field = format!("1 1 0 10 {ahead}");
        key.redis
            .command(&["HSET", &slices, "two", &field])
            .await
            .unwrap();
        assert_eq!(key.left().await, 90);
        let stands = key.redis.command(&["HGET", &slices, "two"]).await.unwrap();
        let lapse: u64 = stands.as_str().rsplit(' ').next().unwrap().parse().unwrap();
        assert!(lapse <= now() + TERM && lapse > now());
    })
    .await;
}

#[tokio::test]
async fn no_key_stays_longer_than_it_matters() {
    each_of(100, 10 * SECOND, async |mut key| {
        let lent = key
            .ask(Ask {
                cost: 1,
                wanted: 10,
                ..ASK
            })
            .await;
        let [_, slices] = key.names.clone();
        let left = key
            .redis
            .command(&["PTTL", &slices])
            .await
            .unwrap()
            .as_int() as u64
            * MS;
        let lapses = lent.lapse - lent.now;
        assert!(
            left + 5 * MS * 100 >= lapses && left <= TERM + 20 * SECOND,
            "{left}"
        );
    })
    .await;
}
