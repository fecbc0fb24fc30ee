//! Reservations: charged at once, settled when it is known what a request has come to.

use std::collections::VecDeque;

use proptest::prelude::*;
use tidegate_core::{Micros, Quota, Rate, Slot, TokenBucket, Verdict, decide};

use crate::traffic::{Key, SECOND, cases, fixed, quota, start, traffic};

const LEASE: Micros = 30 * SECOND;

/// One request, as a reservation.
fn reserve(quota: &Quota, slot: &mut Slot<'static>, cost: u64, now: Micros) -> Verdict {
    slot.cost = cost;
    slot.reserves = Some(LEASE);
    slot.hold.0 += 1;
    let mut verdicts = [quota.check(&mut quota.fresh(), 1, now)];
    decide(std::slice::from_mut(slot), now, &mut verdicts);
    verdicts[0]
}

fn slot(quota: Quota) -> Slot<'static> {
    Slot::new(Box::leak(Box::new(quota)), quota.fresh(), 1)
}

proptest! {
    #![proptest_config(cases(256))]

    /// What has come to nothing leaves no more than if it had never come; what is kept is charged as any other.
    #[test]
    fn what_comes_to_all_is_charged_and_to_nothing_is_not(
        quota in quota(), now in start(), ops in traffic(30), kept in any::<bool>(),
    ) {
        // A queue's places are turns, and are not reserved.
        prop_assume!(!matches!(quota, Quota::LeakyBucket(_)));
        let (mut slot, mut plain) = (slot(quota), Key::new(quota, now));
        for op in ops {
            let cost = plain.wait(op);
            let verdict = reserve(&quota, &mut slot, cost, plain.now);
            if verdict.allowed {
                let used = if kept { cost } else { 0 };
                let id = slot.hold.0;
                prop_assert!(slot.settle(id, used, plain.now + verdict.reset, plain.now));
            }
            if kept {
                prop_assert_eq!(plain.request(cost), verdict);
                prop_assert_eq!(&slot.state, &plain.state);
            } else {
                // Receipts of buckets are rounded: up to two microseconds of the rate per operation stay.
                let left = quota.check(&mut slot.state, 1, plain.now);
                prop_assert!(left.remaining == quota.capacity() || left.reset <= 2 * 30, "{left:?}");
            }
        }
    }
}

/// A bucket as a queue: who came first is paid off first.
#[derive(Default)]
struct Queue {
    /// Each charge by its ID, and for how many us it is paid off from when all before it are.
    owed: VecDeque<(u64, Micros)>,
    now: Micros,
}

impl Queue {
    fn pass(&mut self, mut time: Micros) {
        self.now += time;
        while time > 0
            && let Some((_, left)) = self.owed.front_mut()
        {
            let paid = time.min(*left);
            (time, *left) = (time - paid, *left - paid);
            if *left == 0 {
                self.owed.pop_front();
            }
        }
    }

    fn give_back(&mut self, id: u64, time: Micros) {
        if let Some((_, left)) = self.owed.iter_mut().find(|(other, _)| *other == id) {
            *left = left.saturating_sub(time);
        }
    }

    fn whole(&self) -> Micros {
        self.owed.iter().map(|(_, left)| left).sum()
    }
}

proptest! {
    #![proptest_config(cases(256))]

    /// Many reservations at once, settled in any order: each gives back what is still owed of it, and no more. Of a refund and a
    /// reservation within one microsecond it is not known which came first: then less is given back.
    #[test]
    fn what_is_given_back_is_what_is_still_owed(
        now in start(),
        ops in prop::collection::vec((1..3_000_u64, 1..=4_u64, 0..=4_u64, any::<prop::sample::Index>(), 0..4_u8), 1..60),
    ) {
        let quota = Quota::from(TokenBucket::new(20, Rate { count: 1_000, per: SECOND }).unwrap());
        let unit = SECOND / 1_000;
        let (mut slot, mut queue, mut open) = (slot(quota), Queue::default(), Vec::new());
        queue.now = now;
        for (nth, (wait, cost, used, which, what)) in ops.into_iter().enumerate() {
            queue.pass(wait);
            if what < 2 || open.is_empty() {
                let verdict = reserve(&quota, &mut slot, cost, queue.now);
                if verdict.allowed {
                    queue.owed.push_back((slot.hold.0, cost * unit));
                    open.push((slot.hold.0, cost, queue.now + verdict.reset));
                }
            } else {
                let (id, cost, receipt) = open.swap_remove(which.index(open.len()));
                prop_assert!(slot.settle(id, used.min(cost), receipt, queue.now));
                queue.give_back(id, cost.saturating_sub(used) * unit);
            }
            // What is rounded, is rounded so that less is given back.
            let (left, owed) = (quota.check(&mut slot.state, 1, queue.now).reset, queue.whole());
            let most = owed + 4 * (nth as u64 + 1);
            prop_assert!((owed..=most).contains(&left), "{left} us are owed, where a queue owes {owed}");
        }
    }
}

/// The second of two reservations was paid off earlier, because the first has come to nothing.
#[test]
fn what_others_gave_back_has_paid_off_what_came_later() {
    let rate = Rate {
        count: 1,
        per: SECOND,
    };
    let (quota, now) = (
        Quota::from(TokenBucket::new(3, rate).unwrap()),
        1_000 * SECOND,
    );
    let mut slot = slot(quota);
    let receipts = [1, 2].map(|id| {
        let verdict = reserve(&quota, &mut slot, 1, now);
        (id, now + verdict.reset)
    });
    assert!(slot.settle(receipts[0].0, 0, receipts[0].1, now));
    let later = now + SECOND * 3 / 2;
    assert!(reserve(&quota, &mut slot, 3, later).allowed);
    assert!(slot.settle(receipts[1].0, 0, receipts[1].1, later + SECOND / 10));
    assert!(!reserve(&quota, &mut slot, 1, later + SECOND * 7 / 10).allowed);
    assert!(reserve(&quota, &mut slot, 1, later + SECOND).allowed);
}

/// A key knows the latest 1,000 refunds. What has seen more go gives back what nothing else could have paid off.
#[test]
fn too_many_refunds_give_back_no_more_than_is_surely_owed() {
    let rate = Rate {
        count: 1,
        per: SECOND,
    };
    let quota = Quota::from(TokenBucket::new(20, rate).unwrap());
    let now = 1_000 * SECOND;
    // Of the second reservation nothing is paid off after two seconds, since the first one was before it. If that is not
    // known, two units may be.
    for (refunds, left) in [(999, 17), (1_001, 15)] {
        let mut slot = slot(quota);
        reserve(&quota, &mut slot, 4, now);
        let second = reserve(&quota, &mut slot, 4, now);
        let id = slot.hold.0;
        for _ in 0..refunds {
            let verdict = reserve(&quota, &mut slot, 1, now + 1);
            assert!(slot.settle(slot.hold.0, 0, now + 1 + verdict.reset, now + 1));
        }
        let later = now + 2 * SECOND;
        assert!(reserve(&quota, &mut slot, 1, later).allowed);
        assert!(slot.settle(id, 0, now + second.reset, later));
        let remaining = quota.check(&mut slot.state, 1, later).remaining;
        assert_eq!(remaining, left, "after {refunds} refunds");
    }
}

/// Five may fail. Who comes while five are undecided may fit later; who comes when five have failed does not.
#[test]
fn only_what_may_still_come_to_nothing_is_waited_for() {
    let quota = Quota::from(fixed(5, 3_600 * SECOND));
    let (mut slot, now) = (slot(quota), 7_200 * SECOND);
    let mut receipts = Vec::new();
    for _ in 0..5 {
        let verdict = reserve(&quota, &mut slot, 1, now);
        assert!(verdict.allowed && !verdict.settling);
        receipts.push((slot.hold.0, now + verdict.reset));
    }
    let sixth = reserve(&quota, &mut slot, 1, now);
    assert_eq!((sixth.allowed, sixth.settling), (false, true));
    // One of them succeeds, and is not counted.
    let (id, receipt) = receipts[0];
    assert!(slot.settle(id, 0, receipt, now));
    // Being told so twice gives back no more.
    assert!(!slot.settle(id, 0, receipt, now));
    assert!(reserve(&quota, &mut slot, 1, now).allowed);
    receipts[0].0 = slot.hold.0;
    // All others fail.
    for (id, receipt) in receipts {
        assert!(slot.settle(id, 1, receipt, now));
    }
    let late = reserve(&quota, &mut slot, 1, now);
    assert_eq!((late.allowed, late.settling), (false, false));
}

/// Nobody settles it: it stays charged, and is waited for until its lease is over.
#[test]
fn what_is_abandoned_stays_charged() {
    let quota = Quota::from(fixed(1, 3_600 * SECOND));
    let (mut slot, now) = (slot(quota), 7_200 * SECOND);
    assert!(reserve(&quota, &mut slot, 1, now).allowed);
    assert!(reserve(&quota, &mut slot, 1, now + LEASE - 1).settling);
    let lapsed = reserve(&quota, &mut slot, 1, now + LEASE);
    assert_eq!((lapsed.allowed, lapsed.settling), (false, false));
}

/// Ten are reserved: three of them were needed; or fifteen, or more than there are; all of it is charged.
#[test]
fn more_and_less_than_reserved() {
    let quota = Quota::from(fixed(30, 3_600 * SECOND));
    let now = 7_200 * SECOND;
    for (used, left) in [(3, 27), (10, 20), (15, 15), (1_000, 0)] {
        let mut slot = slot(quota);
        let verdict = reserve(&quota, &mut slot, 10, now);
        slot.settle(1, used, now + verdict.reset, now);
        // Being told so twice charges no more.
        assert!(!slot.settle(1, used, now + verdict.reset, now));
        assert_eq!(quota.check(&mut slot.state, 1, now).remaining, left);
        let larger = Quota::from(fixed(2_000, 3_600 * SECOND));
        let left = larger.check(&mut slot.state, 1, now).remaining;
        assert_eq!(left, 2_000 - used);
    }
}

/// A receipt is a time of one plan. Charges of a faster plan may have paid the reservation off before.
#[test]
fn what_a_faster_plan_paid_off_is_not_given_back() {
    let plan = |count| {
        let per = 8 * SECOND;
        Quota::from(TokenBucket::new(4, Rate { count, per }).unwrap())
    };
    let (slow, fast, now) = (plan(2), plan(4), 1_000 * SECOND);
    for (wait, left) in [(8, 0), (6, 1), (2, 3)] {
        let mut slot = slot(slow);
        let reserved = reserve(&slow, &mut slot, 4, now);
        let (id, receipt) = (slot.hold.0, now + reserved.reset);
        let later = now + wait * SECOND;
        // The faster plan has room for what it paid off, and uses it.
        let paid = wait / 2;
        slot.quota = Box::leak(Box::new(fast));
        assert!(reserve(&fast, &mut slot, paid, later).allowed);
        assert!(slot.settle(slot.hold.0, paid, later + reserved.reset, later));
        slot.quota = Box::leak(Box::new(slow));
        assert!(slot.settle(id, 0, receipt, later));
        let remaining = fast.check(&mut slot.state, 1, later).remaining;
        assert_eq!(remaining, left, "after {wait} s");
    }
}
