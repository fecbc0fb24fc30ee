use tidegate_core::{FixedWindow, Rate, TokenBucket};

use super::*;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const NOW: Micros = 1_000_000_000_000;

fn hour(limit: u64) -> Quota {
    FixedWindow::new(limit, 3_600_000_000).unwrap().into()
}

/// An answer that lends what was wanted, for 5 s.
fn lent(ask: Ask, left: u64) -> Lent {
    Lent {
        now: NOW,
        admitted: true,
        left,
        reset: 60_000_000,
        retry_after: if left == 0 { 30_000_000 } else { 0 },
        out: ask.wanted.max(ask.kept),
        lapse: NOW + 5_000_000,
    }
}

/// A slice, and what happens to it; calls are numbered from 2.
struct Case {
    slice: Slice,
    quota: Quota,
    now: Instant,
    number: u64,
}

impl Case {
    fn new(quota: Quota) -> Self {
        Self {
            slice: Slice::new(1),
            quota,
            now: Instant::now(),
            number: 1,
        }
    }

    fn take(&mut self, cost: u64) -> Step {
        self.number += 1;
        let number = self.number;
        self.slice
            .take(&self.quota, (cost, false), self.now, || number)
    }

    fn ask(&mut self, cost: u64) -> Ask {
        match self.take(cost) {
            Step::Ask(ask) => ask,
            other => panic!("{other:?}"),
        }
    }

    fn spend(&mut self, cost: u64) -> (Verdict, Option<Ask>) {
        let (verdict, _, ask) = self.spent(cost);
        (verdict, ask)
    }

    fn spent(&mut self, cost: u64) -> (Verdict, Spent, Option<Ask>) {
        match self.take(cost) {
            Step::Spent(verdict, spent, ask) if verdict.allowed => (verdict, spent, ask),
            other => panic!("{other:?}"),
        }
    }

    fn refuse(&mut self, cost: u64) -> Verdict {
        match self.take(cost) {
            Step::Decided(verdict) if !verdict.allowed => verdict,
            other => panic!("{other:?}"),
        }
    }

    fn answer(&mut self, lent: Lent) {
        let (sent, received) = (self.now, self.now + 2 * MS);
        self.slice.answered(lent, sent, received);
        self.now = received;
    }

    /// Until the slice has this size.
    fn grow(&mut self, size: u64) {
        loop {
            let ask = self.ask(1);
            self.answer(lent(ask, 10_000));
            if self.slice.size == size {
                return;
            }
            let rest = self.slice.rest(self.now);
            self.slice.spent += rest;
        }
    }
}

#[test]
fn a_cold_key_borrows_nothing_and_a_hot_one_more_each_time() {
    let sizes = |case: &mut Case| {
        [(); 5].map(|()| {
            let ask = case.ask(1);
            case.answer(lent(ask, 1_000));
            case.slice.spent += case.slice.rest(case.now);
            ask.wanted
        })
    };
    assert_eq!(sizes(&mut Case::new(hour(1_000_000))), [0, 1, 4, 16, 64]);
    let mut case = Case::new(hour(60));
    assert_eq!(sizes(&mut case), [0, 1, 2, 4, 8]);
    // One that lasted long enough is not followed by a larger one.
    case.now = case.slice.last.unwrap().sent + HORIZON;
    let ask = case.ask(1);
    assert_eq!(ask.wanted, 8);
    // Nor one that was used slowly: so much as is spent in 3 s.
    case.answer(lent(ask, 1_000));
    case.slice.spent += 8;
    case.now = case.slice.last.unwrap().sent + HORIZON * 3;
    assert_eq!(case.ask(1).wanted, 3);
    // Nor one that Redis could not give.
    let mut case = Case::new(hour(60));
    case.grow(8);
    case.slice.spent += 8;
    let ask = case.ask(1);
    case.answer(Lent {
        out: 5,
        ..lent(ask, 3)
    });
    case.slice.spent += 5;
    assert_eq!((ask.wanted, case.ask(1).wanted), (16, 16));
    // Nor more than all.
    let mut case = Case::new(hour(5));
    case.grow(4);
    case.slice.spent += 4;
    assert_eq!(case.ask(1).wanted, 5);
}

#[test]
fn what_others_wait_for_is_asked_for_at_once() {
    let mut case = Case::new(hour(60));
    let ask = case.ask(1);
    for cost in [1, 2, 30] {
        assert_eq!(case.take(cost), Step::Wait);
    }
    case.answer(lent(ask, 900));
    assert_eq!(case.ask(1).wanted, 33);
}

#[test]
fn more_is_asked_for_in_the_background_when_little_is_left() {
    let mut case = Case::new(hour(60));
    case.grow(16);
    for left in (4..16).rev() {
        let (verdict, ask) = case.spend(1);
        assert_eq!((verdict.remaining, ask), (10_000 + left, None));
        let since = (case.now - case.slice.last.unwrap().received).as_micros() as u64;
        assert_eq!(verdict.reset, 60_000_000 - since);
    }
    let (_, ask) = case.spend(1);
    let ask = ask.unwrap();
    assert_eq!((ask.cost, ask.kept, ask.wanted), (0, 3, 32));
    assert_eq!((ask.spent, ask.unsettled), (case.slice.spent, 13));
    // Meanwhile the rest is spent, and then waited for.
    assert_eq!(case.spend(3).1, None);
    assert_eq!(case.take(1), Step::Wait);
    case.answer(lent(ask, 0));
    assert_eq!(case.spend(1).0.remaining, 28);
}

#[test]
fn a_refusal_holds_for_a_second_and_for_what_costs_no_less() {
    let mut case = Case::new(hour(10));
    let ask = case.ask(3);
    let refusal = Lent {
        admitted: false,
        retry_after: 30_000_000,
        ..lent(ask, 2)
    };
    case.answer(refusal);
    let refused = case.refuse(3);
    assert_eq!((refused.remaining, refused.retry_after), (2, 30_000_000));
    case.now += 500 * MS;
    let refused = case.refuse(4);
    assert_eq!(refused.retry_after, 29_500_000);
    assert!(refused.reset >= refused.retry_after);
    let sent = case.slice.last.unwrap().sent;
    case.now = sent + SECOND - MS;
    case.refuse(3);
    case.now = sent + SECOND;
    assert_eq!(case.ask(3).wanted, 0);

    let mut case = Case::new(hour(10));
    let ask = case.ask(3);
    case.answer(Lent {
        admitted: false,
        retry_after: 30_000_000,
        ..lent(ask, 2)
    });
    assert_eq!(case.ask(2).cost, 2, "less may fit");
}

/// When Redis has lent the last of it nobody need ask to know.
#[test]
fn the_last_of_a_budget_is_known_to_be_the_last() {
    let mut case = Case::new(hour(10));
    case.grow(1);
    case.slice.spent += 1;
    let ask = case.ask(1);
    case.answer(lent(ask, 0));
    assert_eq!(case.spend(2).1, None, "nor is it asked in the background");
    let refused = case.refuse(1);
    assert_eq!((refused.remaining, refused.retry_after), (0, 30_000_000));
    case.now += SECOND;
    case.ask(1);
}

/// What comes back bit by bit is not fetched bit by bit.
#[test]
fn a_bucket_is_left_to_fill_for_a_while() {
    let minute = Rate {
        count: 6_400,
        per: 64_000_000,
    };
    let mut case = Case::new(TokenBucket::new(6_400, minute).unwrap().into());
    let ask = case.ask(1);
    case.answer(Lent {
        retry_after: 10_000,
        ..lent(ask, 0)
    });
    case.now += 20 * MS;
    assert_eq!(case.refuse(1).retry_after, 1_000_000);
    case.now += SECOND;
    case.ask(1);
    // One that is full again in 32 ms is asked for after one.
    let mut case = Case::new(
        TokenBucket::new(
            32,
            Rate {
                count: 32,
                per: 32_000,
            },
        )
        .unwrap()
        .into(),
    );
    let ask = case.ask(1);
    case.answer(Lent {
        retry_after: 1_000,
        ..lent(ask, 0)
    });
    assert_eq!(case.refuse(1).retry_after, 1_000);
    case.now += MS;
    case.ask(1);
}

/// The refusal of the last of a budget ends with the window, however late the slice was spent, and a settlement does not put it off.
#[test]
fn a_refusal_does_not_outlast_the_time_after_which_it_fits() {
    let mut case = Case::new(hour(10));
    case.grow(2);
    case.slice.spent += 2;
    let ask = case.ask(1);
    case.answer(Lent {
        retry_after: 800_000,
        ..lent(ask, 0)
    });
    case.now += 500 * MS;
    case.slice.spent += case.slice.rest(case.now);
    assert_eq!(case.refuse(1).retry_after, 300_000);
    case.now += 300 * MS;
    case.ask(1);

    let minute = Rate {
        count: 6_400,
        per: 64_000_000,
    };
    let mut case = Case::new(TokenBucket::new(6_400, minute).unwrap().into());
    let ask = case.ask(1);
    case.answer(Lent {
        admitted: false,
        retry_after: 1_000_000,
        ..lent(ask, 0)
    });
    case.now += 900 * MS;
    assert_eq!(case.refuse(1).retry_after, 100_000);
    for _ in 0..2 {
        let ask = case.slice.settle(&case.quota, case.now, 50 + case.number);
        case.answer(Lent {
            retry_after: 96_000,
            ..lent(ask, 0)
        });
    }
    case.now += 96 * MS;
    case.ask(1);
}

#[test]
fn a_slice_ends_before_it_lapses() {
    let mut case = Case::new(hour(60));
    case.grow(8);
    let sent = case.slice.last.unwrap().sent;
    case.now = sent + 4_994 * MS;
    case.spend(1);
    case.now = sent + 4_995 * MS;
    assert!(!case.slice.is_out(case.now));
    let ask = case.ask(1);
    assert_eq!(
        (ask.kept, ask.unsettled, ask.lapse),
        (0, 1, NOW + 5_000_000)
    );
}

#[test]
fn it_is_settled_when_it_has_lasted_and_shrinks_if_it_was_too_large() {
    let mut case = Case::new(hour(60));
    case.grow(16);
    case.spend(3);
    let sent = case.slice.last.unwrap().sent;
    assert!(!case.slice.is_due(sent + HORIZON - MS));
    case.now = sent + HORIZON;
    assert!(case.slice.is_due(case.now));
    let ask = case.slice.settle(&case.quota, case.now, 50);
    assert_eq!((ask.unsettled, ask.kept, ask.wanted), (3, 3, 3));
    assert!(!case.slice.is_due(case.now), "it is being settled");
    assert_eq!(case.slice.rest(case.now), 3);
    case.answer(lent(ask, 900));
    case.now += HORIZON;
    let ask = case.slice.settle(&case.quota, case.now, 51);
    assert_eq!((ask.unsettled, ask.kept, ask.wanted), (0, 0, 0));
    case.answer(lent(ask, 900));
    assert!(!case.slice.is_out(case.now) && !case.slice.is_idle(case.now));
    assert!(case.slice.is_idle(case.now + HORIZON));
}

/// Without an answer it is as if less had been lent, and it is tried again soon, but not at once.
#[test]
fn a_call_without_an_answer() {
    let mut case = Case::new(hour(60));
    case.grow(16);
    case.slice.spent += 12;
    let ask = case.spend(1).1.unwrap();
    case.slice.failed(case.now);
    assert_eq!(case.spend(1).1, None);
    case.now += RETRY;
    let again = case.spend(1).1.unwrap();
    assert!(again.call > ask.call && again.unsettled == 15 && again.kept == 1);
    case.slice.failed(case.now);
    // What the request at hand gave up is gone.
    assert_eq!(case.ask(5).kept, 0);
    case.slice.failed(case.now);
    assert_eq!(case.ask(1).cost, 1);
}

#[test]
fn what_is_put_back_is_spent_again_unless_redis_was_told_of_it() {
    let mut case = Case::new(hour(60));
    case.grow(16);
    let (_, spent, _) = case.spent(3);
    case.slice.put_back(3, spent);
    assert_eq!(case.slice.rest(case.now), 16);
    // In the middle of being charged, and after.
    case.spend(10);
    let (_, spent, ask) = case.spent(3);
    let stays = |case: &mut Case, spent| {
        let rest = case.slice.rest(case.now);
        case.slice.put_back(1, spent);
        assert_eq!(case.slice.rest(case.now), rest);
    };
    stays(&mut case, spent);
    case.answer(lent(ask.unwrap(), 500));
    stays(&mut case, spent);
    let (_, of_next, _) = case.spent(1);
    let rest = case.slice.rest(case.now);
    case.slice.put_back(1, of_next);
    assert_eq!(case.slice.rest(case.now), rest + 1);
    // A reset, and another slice in the place of this one.
    case.slice.forget();
    stays(&mut case, of_next);
    case.slice = Slice::new(9);
    stays(&mut case, of_next);
}

/// A request that another limit refused is decided, and spends nothing.
#[test]
fn a_check_spends_nothing() {
    let mut case = Case::new(hour(60));
    let check = |case: &mut Case, cost| {
        let (quota, now) = (case.quota, case.now);
        case.slice.take(&quota, (cost, true), now, || 99)
    };
    let Step::Ask(ask) = check(&mut case, 1) else {
        panic!("nothing is known yet");
    };
    assert!(ask.checks && ask.cost == 1);
    case.answer(lent(ask, 500));
    case.grow(16);
    let rest = case.slice.rest(case.now);
    let decided = check(&mut case, 1);
    assert!(matches!(decided, Step::Decided(verdict) if verdict.allowed));
    assert_eq!(case.slice.rest(case.now), rest);
}

#[test]
fn an_answer_to_what_was_asked_before_a_reset_is_worth_nothing() {
    let mut case = Case::new(hour(60));
    case.grow(8);
    let ask = case.ask(9);
    case.slice.forget();
    case.answer(lent(ask, 500));
    assert_eq!(case.slice.rest(case.now), 0);
    assert_eq!(case.ask(1).kept, 0);
}
