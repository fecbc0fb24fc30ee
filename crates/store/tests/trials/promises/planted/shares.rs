//! Faults of the shares of members.

use super::*;
use crate::case::Member;

/// A bucket of ten units for members, which refills in a second.
fn shared() -> History {
    let mut history = exact(Kind::TokenBucket);
    history.limits[0].window = 1_000 * MS;
    history
}

const SLOW: Numbers = Numbers {
    per: 1_000 * MS,
    ..TEN
};

impl Request {
    /// Adds the member that the request charges, and the units that the request leaves.
    fn of_member(mut self, name: u64, remaining: u64) -> Self {
        let is_admitted = self.is_admitted();
        let charge = &mut self.charges[0];
        charge.numbers = SLOW;
        charge.verdict = Some(Verdict {
            remaining,
            ..VERDICT
        });
        let member = Member { name, weight: 1 };
        let verdict = Verdict {
            allowed: is_admitted,
            retry_after: if is_admitted { 0 } else { 10 * WINDOW },
            ..VERDICT
        };
        charge.share = Some((member, Some(verdict)));
        self
    }
}

/// A member uses some of ten units. While five or more are left, they are not counted.
fn greedy(used: u64) -> History {
    let mut history = shared();
    let admitted = (0..used).map(|nth| admitted(0).of_member(0, 9 - nth));
    history.requests.extend(admitted);
    history
}

#[test]
fn a_refusal_while_half_is_left() {
    let mut history = greedy(8);
    // Two are left, and three more have come back by then: five of ten.
    let refused = |at| refused(at, Via::Store).of_member(0, 4);
    history.requests.push(refused(290 * MS));
    breaks(history, refused(310 * MS), "share_idle");
}

#[test]
fn a_refusal_without_counted_units() {
    let refused = |name| refused(2 * MS, Via::Store).of_member(name, 2);
    let mut history = greedy(8);
    history.requests.push(refused(0));
    breaks(history, refused(1), "share_first");
    // Units that are used while half is left are not counted.
    let mut history = greedy(5);
    history.requests.push(admitted(MS).of_member(1, 4));
    history.requests.push(admitted(MS).of_member(1, 3));
    history.requests.push(refused(1));
    breaks(history, refused(0), "share_first");
}

#[test]
fn a_refusal_beside_a_member_that_has_used_more() {
    let mut history = greedy(9);
    // A unit has come back.
    history.requests.push(admitted(110 * MS).of_member(1, 1));
    let refused = refused(111 * MS, Via::Store).of_member(1, 1);
    history.requests.push(refused);
    breaks(history, admitted(112 * MS).of_member(0, 0), "share_fair");
}
