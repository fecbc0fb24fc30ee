//! What follows decisions, in Lua and in Rust. What Redis did is replayed through the Rust algorithms, at the times that Redis
//! reports. Every number of the decisions in between must be equal.

use std::time::Duration;

use tidegate_core::{
    Budget, Calendar, CalendarWindow, Concurrency, FixedWindow, Hold, LeakyBucket, MAX_EXACT,
    Quota, Rate, SlidingWindowCounter, SlidingWindowLog, TokenBucket, decide,
};
use tidegate_redis::Wait;
use tidegate_testkit::RedisServer;

use super::*;
use crate::redis::script::caller::cross_slot::tests::caller;
use crate::table::KeyState;
use crate::{Key, Limit, OnFailure};

/// Per algorithm.
const OPERATIONS: u64 = 1_500;

const LEASE: Micros = 30_000;

/// One charge that was admitted, and what may still become of it.
#[derive(Clone, Copy)]
struct Charged {
    cost: u64,
    lapse: Micros,
    id: HoldId,
}

/// One key, in Redis and here.
struct Account<'a> {
    caller: &'a Caller,
    limit: &'a Limit,
    quota: &'static Quota,
    key: Key,
    held: KeyState,
    charged: Vec<Charged>,
}

impl Account<'_> {
    fn charge(&self, cost: u64) -> Charge<'_> {
        let (limit, key) = (self.limit, self.key);
        Charge {
            limit,
            key,
            cost,
            origin: None,
        }
    }

    /// The time and what was answered.
    async fn send(&self, call: Compensation) -> (Micros, i64) {
        let reply = self.caller.send(&call).await.unwrap();
        (u64::try_from(reply[0]).unwrap(), reply[1])
    }

    fn budget(&mut self, cost: u64, id: HoldId) -> Budget<'static> {
        let held = std::mem::replace(&mut self.held, KeyState::fresh(self.quota));
        held.budget(&self.charge(cost), self.quota, id)
    }

    /// Asks for so much, and returns whether it was admitted.
    async fn ask(&mut self, cost: u64) -> bool {
        let wait = Wait::new(Duration::from_secs(5), None);
        let charges = [self.charge(cost)];
        let answer = self.caller.decide_at_once(&charges, wait).await;
        let decision = answer.unwrap().unwrap().content;
        let id = decision.sources[0].hold;
        let mut budgets = [self.budget(cost, id)];
        let mut verdicts = [decision.verdicts[0].unwrap()];
        let admitted = decide(&mut budgets, decision.now, &mut verdicts);
        assert_eq!(decision.verdicts[0], Some(verdicts[0]), "{:?}", self.limit);
        let [budget] = budgets;
        self.held = KeyState::of(budget);
        if admitted {
            self.charged.push(Charged {
                cost,
                lapse: decision.now + self.limit.lease().unwrap_or(0),
                id,
            });
            self.charged.drain(..self.charged.len().saturating_sub(8));
        }
        admitted
    }

    async fn end(&mut self, charged: Charged, used: u64) {
        let call = self
            .caller
            .ended(&self.charge(charged.cost), charged.id, used);
        let (now, was_there) = self.send(call).await;
        // Redis drops what has lapsed and would count no longer.
        let matters = self.quota.counts_until(charged.lapse).max(charged.lapse);
        if was_there == 0 && matters <= now {
            self.held.holds.end(charged.id);
        }
        let mut budget = self.budget(charged.cost, charged.id);
        assert_eq!(budget.end(charged.id, used, now), was_there == 1);
        self.held = KeyState::of(budget);
    }

    /// Renews what is held, or was. Some renewals come after their deadline, and some twice.
    async fn renew(&mut self, mut charged: Charged, random: &mut impl FnMut(u64) -> u64) {
        let (id, units, lease) = (charged.id, charged.cost, self.limit.lease().unwrap());
        let deadline = [None, Some(1)][usize::from(random(8) == 0)];
        for _ in 0..1 + random(2) {
            let call = self.caller.renewed(&self.charge(units), id, deadline);
            let (now, is_done) = self.send(call).await;
            assert_eq!(is_done, if deadline.is_none() { 1 } else { -1 });
            if is_done == 1 {
                self.held.holds.take(Hold { id, units, lease }, now);
                charged.lapse = now + lease;
            }
        }
        self.charged.push(charged);
    }

    /// All of it is lost, and what is held is held again.
    async fn lose(&mut self, random: &mut impl FnMut(u64) -> u64) {
        let all = self.charge(1);
        self.caller.forget(&[all], LONGEST).await.unwrap();
        self.held = KeyState::fresh(self.quota);
        for charged in std::mem::take(&mut self.charged) {
            self.renew(charged, random).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lua_and_rust_do_the_same_afterwards() {
    let server = RedisServer::start().await;
    let caller = caller(&server).await;
    let mut seed = 1;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    // Windows of a few round trips, so that holds end before, at and after their ends.
    let sizes = [(3, 2_000), (7, 5_000), (20, 40_000)];
    for (index, quotas) in
        (0..7).map(|kind| (kind, sizes.map(|(most, window)| quota(kind, most, window))))
    {
        let limits = quotas.map(|quota| {
            let limit = Limit::new("it", quota, OnFailure::Closed);
            match quota.lease() {
                Some(_) => limit,
                None => limit.reserving(LEASE),
            }
        });
        let mut keys = limits.each_ref().map(|limit| Account {
            caller: &caller,
            limit,
            quota: Box::leak(Box::new(*limit.quota())),
            key: Key {
                tag: [limit.quota().capacity() as u8; 16],
                rest: [index; 16],
            },
            held: KeyState::fresh(limit.quota()),
            charged: Vec::new(),
        });
        let (mut admitted, mut compensation) = (0, 0);
        for _ in 0..OPERATIONS {
            let key = &mut keys[random(3) as usize];
            let count = key.charged.len() as u64;
            if count == 0 || random(3) > 0 {
                admitted += u64::from(key.ask(1 + random(3)).await);
                continue;
            }
            compensation += 1;
            // An older one is paid off in part, or long ended.
            let charged = key.charged.remove(random(count) as usize);
            if random(3) == 0 {
                // It is told again, or its answer was lost.
                key.charged.push(charged);
            }
            let capacity = key.quota.capacity();
            match random(8) {
                0 | 1 => key.renew(charged, &mut random).await,
                2 => key.end(charged, capacity + random(2 * capacity)).await,
                3 if random(16) == 0 => {
                    key.end(charged, MAX_EXACT >> random(53)).await;
                    key.ask(1 + random(capacity.min(3))).await;
                    key.lose(&mut random).await;
                }
                _ => key.end(charged, random(6)).await,
            }
        }
        let name = quotas[0].algorithm();
        eprintln!("{name}: {admitted} admitted, {compensation} compensation");
        // A window that an end has used up admits nothing until it is over: on a fast machine most requests fall into it.
        assert!(admitted > OPERATIONS / 100 && compensation > OPERATIONS / 100);
    }
}

fn quota(kind: u8, most: u64, window: Micros) -> Quota {
    let rate = Rate {
        count: most,
        per: window,
    };
    match kind {
        0 => TokenBucket::new(most, rate).unwrap().into(),
        1 => LeakyBucket::new(most, rate).unwrap().into(),
        2 => FixedWindow::new(most, window).unwrap().into(),
        3 => SlidingWindowLog::new(most, window).unwrap().into(),
        4 => SlidingWindowCounter::new(most, window).unwrap().into(),
        // Sent along for a time that a busy machine knows to a tenth of a second.
        5 => CalendarWindow::new(50 * most, calendar(400_000))
            .unwrap()
            .into(),
        _ => Concurrency::new(most, window).unwrap().into(),
    }
}

/// Windows that are all as long, from now on.
fn calendar(window: Micros) -> &'static Calendar {
    let start = crate::now() / window * window;
    let calendar = Calendar::new(format!("even/{window}"), [start, start + window]).unwrap();
    Box::leak(Box::new(calendar))
}
