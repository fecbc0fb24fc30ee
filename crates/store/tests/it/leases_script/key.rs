//! `lua/lease.lua` asked directly, for one key.

use tidegate_core::Quota;
use tidegate_testkit::{RedisConnection, RedisServer, Reply};

use crate::support::{SECOND, lendable, quiet_window};

pub(super) const TERM: u64 = 5 * SECOND;

/// What a gateway tells and asks for; as in `redis::leases`.
#[derive(Clone, Copy)]
pub(super) struct Ask {
    pub(super) gateway: &'static str,
    pub(super) cost: u64,
    pub(super) session: u64,
    pub(super) call: u64,
    pub(super) spent: u64,
    pub(super) unsettled: u64,
    pub(super) kept: u64,
    pub(super) lapse: u64,
    pub(super) wanted: u64,
    pub(super) term: u64,
    pub(super) checks: bool,
}

pub(super) const ASK: Ask = Ask {
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
    checks: false,
};

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lent {
    pub(super) now: u64,
    pub(super) admitted: bool,
    pub(super) left: u64,
    pub(super) reset: u64,
    pub(super) retry_after: u64,
    pub(super) out: u64,
    pub(super) lapse: u64,
}

/// One limit's key in a Redis.
pub(super) struct Key {
    pub(super) redis: RedisConnection,
    pub(super) quota: Quota,
    pub(super) names: [String; 2],
}

pub(super) fn text(quota: &Quota) -> String {
    let record = include_str!("../../../../../lua/record.lua");
    let debt = include_str!("../../../../../lua/debt.lua");
    let algorithm = match quota {
        Quota::TokenBucket(_) => include_str!("../../../../../lua/token_bucket.lua"),
        Quota::FixedWindow(_) => concat!(
            include_str!("../../../../../lua/window.lua"),
            include_str!("../../../../../lua/fixed_window.lua"),
        ),
        Quota::SlidingWindowLog(_) => include_str!("../../../../../lua/sliding_window_log.lua"),
        Quota::SlidingWindowCounter(_) => concat!(
            include_str!("../../../../../lua/window_pair.lua"),
            include_str!("../../../../../lua/sliding_window_counter.lua"),
        ),
        other => unreachable!("{other:?} is not lent"),
    };
    let lease = include_str!("../../../../../lua/lease.lua");
    format!("#!lua\nlocal algorithms = {{}}\n{record}{debt}{algorithm}{lease}")
}

pub(super) fn numbers(quota: &Quota) -> Vec<u64> {
    quota.numbers(0).to_vec()
}

impl Key {
    /// Asks, by a deadline on Redis's clock; nothing if the call was too late or overtaken.
    pub(super) async fn ask_by(&mut self, deadline: u64, ask: Ask) -> Option<Lent> {
        let [state, slices] = &self.names;
        let text = text(&self.quota);
        let mut words: Vec<String> = ["EVAL", &text, "2", state, slices]
            .map(str::to_owned)
            .into();
        words.push(deadline.to_string());
        words.push(self.quota.algorithm().to_owned());
        words.push(ask.cost.to_string());
        // Enforced, without a block, final.
        words.extend([0, 0, 0].map(|way| way.to_string()));
        words.extend(numbers(&self.quota).iter().map(u64::to_string));
        words.push(ask.gateway.to_owned());
        let told = [ask.session, ask.call, ask.spent, ask.unsettled];
        let wanted = [ask.kept, ask.lapse, ask.wanted, ask.term];
        words.extend(told.iter().chain(&wanted).map(u64::to_string));
        words.push(u64::from(ask.checks).to_string());
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

    pub(super) async fn ask(&mut self, ask: Ask) -> Lent {
        self.ask_by(u64::MAX >> 11, ask).await.unwrap()
    }

    /// What could be lent to somebody new.
    pub(super) async fn left(&mut self) -> u64 {
        let looking = Ask {
            gateway: "nobody",
            ..ASK
        };
        self.ask(looking).await.left
    }

    /// Everything that stands there.
    pub(super) async fn content(&mut self) -> [Reply; 2] {
        let [state, slices] = self.names.clone();
        let get = match self.quota {
            Quota::SlidingWindowLog(_) => vec!["LRANGE", &state, "0", "-1"],
            _ => vec!["GET", &state],
        };
        let state = self.redis.command(&get).await.unwrap();
        let slices = self.redis.command(&["HGETALL", &slices]).await.unwrap();
        [state, slices]
    }

    /// How many hold something.
    pub(super) async fn holders(&mut self) -> usize {
        let [_, slices] = self.names.clone();
        let values = self.redis.command(&["HVALS", &slices]).await.unwrap();
        let values = values.as_array().iter();
        values
            .filter(|slice| slice.as_str().split(' ').nth(3) != Some("0"))
            .count()
    }
}

/// For each algorithm that can be lent: 100, which do not come back during a test.
pub(super) async fn each(case: impl AsyncFn(Key)) {
    each_of(100, quiet_window(), case).await;
}

pub(super) async fn each_of(limit: u64, window: u64, case: impl AsyncFn(Key)) {
    let server = RedisServer::start().await;
    for quota in lendable(limit, window) {
        let kind = quota.algorithm();
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

pub(super) async fn sleep(micros: u64) {
    tokio::time::sleep(std::time::Duration::from_micros(micros)).await;
}
