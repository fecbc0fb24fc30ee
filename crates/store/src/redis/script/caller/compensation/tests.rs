//! Giving back, settling and renewing, in Lua and in Rust. What Redis did is replayed through the Rust algorithms, at the times
//! that Redis reports. Every number of the decisions in between must be equal.

use std::time::{Duration, Instant};

use tidegate_core::{
    Calendar, CalendarWindow, Concurrency, FixedWindow, Hold, LeakyBucket, MAX_EXACT, Quota, Rate,
    SlidingWindowCounter, SlidingWindowLog, Slot, State, TokenBucket, decide,
};
use tidegate_testkit::RedisServer;

use super::*;
use crate::redis::script::caller::cross_slot::tests::caller;
use crate::table::Held;
use crate::{Key, Limit, OnFailure};

/// Per algorithm.
const OPERATIONS: u64 = 1_500;
/// How long reservations last that nobody settles.
const LEASE: Micros = 30_000;

/// One charge that was admitted, and what may still become of it.
#[derive(Clone, Copy)]
struct Charged<'a> {
    /// The plan that asked.
    limit: &'a Limit,
    cost: u64,
    /// When it was charged.
    at: Micros,
    receipt: Micros,
    /// Of a reservation.
    lapse: Micros,
    id: u64,
}

/// One key, in Redis and here.
struct Account<'a> {
    caller: &'a Caller,
    /// The plan that asks now.
    limit: &'a Limit,
    key: Key,
    held: Held,
    charged: Vec<Charged<'a>>,
}

impl<'a> Account<'a> {
    fn charge(&self, cost: u64) -> Charge<'_> {
        let (limit, key) = (self.limit, self.key);
        Charge {
            limit,
            key,
            cost,
            origin: None,
        }
    }

    async fn send(&self, call: Compensation) -> Vec<u64> {
        let reply = self.caller.send(&call).await.unwrap();
        let numbers = reply
            .into_iter()
            .map(|number| u64::try_from(number).unwrap());
        numbers.collect()
    }

    fn slot(&mut self, cost: u64, id: u64) -> Slot<'static> {
        let quota = self.limit.quota();
        // The limits of this test live as long as the test.
        let quota: &'static Quota = Box::leak(Box::new(*quota));
        let held = std::mem::replace(&mut self.held, Held::fresh(quota));
        held.slot(&self.charge(cost), quota, id)
    }

    /// Asks for so much, and says whether it was admitted.
    async fn ask(&mut self, cost: u64) -> bool {
        let until = Instant::now() + Duration::from_secs(5);
        let answer = self
            .caller
            .decide_at_once(&[self.charge(cost)], until)
            .await;
        let decision = answer.unwrap().unwrap().content;
        let id = decision.sources[0].hold;
        let mut slots = [self.slot(cost, id)];
        let mut verdicts = [decision.verdicts[0].unwrap()];
        let admitted = decide(&mut slots, decision.now, &mut verdicts);
        assert_eq!(decision.verdicts[0], Some(verdicts[0]), "{:?}", self.limit);
        let [slot] = slots;
        self.held = Held::of(slot);
        if admitted {
            self.charged.push(Charged {
                limit: self.limit,
                cost,
                at: decision.now,
                receipt: decision.now + verdicts[0].reset,
                lapse: decision.now + self.limit.lease().unwrap_or(0),
                id,
            });
            self.charged.drain(..self.charged.len().saturating_sub(8));
        }
        admitted
    }

    async fn give_back(&mut self, charged: Charged<'a>) {
        let Charged {
            cost, receipt, id, ..
        } = charged;
        let (until, hold) = (receipt, HoldId(id));
        let receipt = Receipt { until, hold };
        self.limit = charged.limit;
        let call = self.caller.by_receipt(&self.charge(cost), receipt);
        let now = self.send(call).await[0];
        let quota = self.limit.quota();
        quota.give_back_held(&mut self.held.state, cost, receipt, now);
    }

    /// Redis says that there is no record of a reservation: it may have dropped one that is too old.
    fn drop_record(&mut self, charged: Charged<'a>, now: Micros) {
        let matters = self.limit.quota().counts_until(charged.lapse);
        if matters.max(charged.lapse + 6 * LEASE) <= now {
            self.held.unsettled.settle(charged.id);
        }
    }

    async fn settle(&mut self, charged: Charged<'a>, used: u64) {
        let Charged {
            cost,
            at,
            receipt,
            id,
            ..
        } = charged;
        let of_hold = Receipt {
            until: receipt,
            hold: HoldId(id),
        };
        self.limit = charged.limit;
        let call = self.caller.settled(&self.charge(cost), of_hold, at, used);
        let [now, was_there] = self.send(call).await[..] else {
            panic!("not the time and whether it was there");
        };
        if was_there == 0 {
            self.drop_record(charged, now);
        }
        let mut slot = self.slot(cost, 0);
        assert_eq!(slot.settle(id, used, receipt, now), was_there == 1);
        self.held = Held::of(slot);
    }

    /// Settles it as more than is left, and now and then as so much that the key begins anew after some requests.
    async fn settle_as_more(&mut self, charged: Charged<'a>, random: &mut impl FnMut(u64) -> u64) {
        let capacity = self.limit.quota().capacity();
        if random(4) > 0 {
            return self.settle(charged, capacity + random(2 * capacity)).await;
        }
        let used = MAX_EXACT >> random(53);
        self.settle(charged, used).await;
        for _ in 0..4 {
            self.ask(1 + random(capacity.min(3))).await;
        }
        if let Some(charged) = self.charged.pop() {
            self.settle(charged, used).await;
            self.ask(1).await;
        }
        let all = self.charge(1);
        self.caller.forget(&[all], LONGEST).await.unwrap();
        self.held = Held::fresh(self.limit.quota());
        self.charged.clear();
    }

    /// Lets it last for longer; it may be given back, or settled, later.
    async fn renew(&mut self, charged: Charged<'a>, random: &mut impl FnMut(u64) -> u64) {
        let (limit, key, cost) = (self.limit, self.key, charged.cost);
        let charge = Charge {
            limit,
            key,
            cost,
            origin: None,
        };
        let lease = limit.lease().unwrap();
        if self.limit.reserves().is_some() {
            let call = self.caller.extended(&charge, charged.id);
            let reply = self.send(call).await;
            let (now, lapse) = (reply[0], reply[1]);
            if lapse == 0 {
                self.drop_record(charged, now);
            }
            let extended = self.held.unsettled.extend(charged.id, now + lease, now);
            assert_eq!(lapse, if extended { now + lease } else { 0 });
            let lapse = now + lease;
            let extension = Charged { lapse, ..charged };
            self.charged.extend(extended.then_some(extension));
            return;
        }
        // Some come after their deadline, and some twice.
        let deadline = [None, Some(1)][usize::from(random(8) == 0)];
        for _ in 0..1 + random(2) {
            let (id, units) = (HoldId(charged.id), charged.cost);
            let call = self.caller.renewed(&charge, id, deadline);
            let reply = self.caller.send(&call).await.unwrap();
            let is_done = deadline.is_none();
            assert_eq!(reply[1], if is_done { 1 } else { -1 });
            if let State::Concurrency(places) = &mut self.held.state
                && is_done
            {
                let now = u64::try_from(reply[0]).unwrap();
                places.hold(Hold { id, units, lease }, now + lease, now);
            }
        }
        self.charged.push(charged);
    }

    /// As a gateway does whose answer was lost: gives back what may be there, twice, and renews what may not be there.
    async fn repeat(&mut self, charged: Charged<'a>, random: &mut impl FnMut(u64) -> u64) {
        self.give_back(charged).await;
        self.give_back(charged).await;
        if random(2) == 0 {
            self.renew(charged, random).await;
        }
    }

    /// All of it is lost, and what is held is held again.
    async fn lose(&mut self, random: &mut impl FnMut(u64) -> u64) {
        let all = self.charge(1);
        self.caller.forget(&[all], LONGEST).await.unwrap();
        self.held = Held::fresh(self.limit.quota());
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
    // Windows of a few round trips, so that receipts are used before, at and after their ends.
    let sizes = [(3, 2_000), (7, 5_000), (20, 40_000)];
    for (index, quotas) in
        (0..7).map(|kind| (kind, sizes.map(|(most, window)| quota(kind, most, window))))
    {
        for reserves in [false, true] {
            // A queue and places are never reserved.
            if reserves && matches!(quotas[0], Quota::LeakyBucket(_) | Quota::Concurrency(_)) {
                continue;
            }
            let limits = quotas.map(|quota| {
                let limit = Limit::new(format!("it-{reserves}"), quota, OnFailure::Closed);
                if reserves {
                    limit.reserving(LEASE)
                } else {
                    limit
                }
            });
            let mut keys = limits.each_ref().map(|limit| Account {
                caller: &caller,
                limit,
                key: Key {
                    tag: [limit.quota().capacity() as u8; 16],
                    rest: [index; 16],
                },
                held: Held::fresh(limit.quota()),
                charged: Vec::new(),
            });
            let (mut admitted, mut compensation) = (0, 0);
            for _ in 0..OPERATIONS {
                let key = &mut keys[random(3) as usize];
                let known = key.charged.len() as u64;
                if known == 0 || random(3) > 0 {
                    admitted += u64::from(key.ask(1 + random(3)).await);
                    continue;
                }
                // An older one is paid off in part, or long ended.
                let charged = key.charged.remove(random(known) as usize);
                if reserves && random(3) == 0 {
                    // It is told again, or its answer was lost.
                    key.charged.push(charged);
                }
                let renewable = key.limit.lease().is_some();
                let is_place = renewable && !reserves;
                match random(4) {
                    0 if renewable => key.renew(charged, &mut random).await,
                    1 if is_place => key.repeat(charged, &mut random).await,
                    2 if is_place && random(8) == 0 => {
                        key.charged.push(charged);
                        key.lose(&mut random).await;
                    }
                    1 if reserves => key.settle_as_more(charged, &mut random).await,
                    _ if reserves => key.settle(charged, random(6)).await,
                    _ => key.give_back(charged).await,
                }
                compensation += 1;
            }
            let name = quotas[0].algorithm();
            eprintln!("{name}: {admitted} admitted, {compensation} compensation");
            // A window that a settlement has used up admits nothing until its end: on a fast machine most requests fall into it.
            assert!(admitted > OPERATIONS / 100 && compensation > OPERATIONS / 100);
        }
    }
}

/// A key knows its latest 1,000 refunds. The two writings forget the same ones, and say the same without them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lua_and_rust_know_as_many_refunds() {
    let server = RedisServer::start().await;
    let caller = caller(&server).await;
    for refunds in [999, 1_001] {
        let limit = Limit::new("it-refunds", quota(0, 5_000, 60_000_000), OnFailure::Closed);
        let limit = limit.reserving(LEASE);
        let (tag, rest) = ([refunds as u8; 16], [1; 16]);
        let mut account = Account {
            caller: &caller,
            limit: &limit,
            key: Key { tag, rest },
            held: Held::fresh(limit.quota()),
            charged: Vec::new(),
        };
        assert!(account.ask(1_000).await && account.ask(300).await);
        let early = account.charged.pop().unwrap();
        for _ in 0..refunds {
            assert!(account.ask(2).await);
            let charged = account.charged.pop().unwrap();
            account.settle(charged, 1).await;
        }
        account.settle(early, 0).await;
        assert!(account.ask(1).await);
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
