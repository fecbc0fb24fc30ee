//! Random quotas, often at the edges of the allowed numbers, and random traffic with costs and time steps that suit the quota.

use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{
    Calendar, CalendarWindow, FixedWindow, LeakyBucket, Micros, Quota, QuotaError, Rate,
    SlidingWindowCounter, SlidingWindowLog, State, TokenBucket, Verdict,
};

pub(crate) const MS: Micros = 1_000;
pub(crate) const SECOND: Micros = 1_000 * MS;
pub(crate) const HOUR: Micros = 3_600 * SECOND;
pub(crate) const DAY: Micros = 24 * HOUR;

/// The settings of every property test: the number of cases, and no files of failed cases.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// A future request: its cost, and the time since the last request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    cost: Cost,
    step: Step,
}

#[derive(Clone, Copy, Debug)]
enum Cost {
    Few(u64),
    // A share of the capacity, in per mille.
    Share(u64),
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Micros(u64),
    // A share of the time that corresponds to one unit, in per mille.
    Units(u64),
    // A share of the quota's period, in per mille.
    Periods(u64),
    // The time to 1 us before the next multiple of the period, plus this time.
    Edge(u64),
    // The time until the last refused request fits, or 1 us less.
    Retry { early: bool },
}

/// A key under load: its state, and the current time.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) quota: Quota,
    pub(crate) state: State,
    pub(crate) now: Micros,
    retry: Micros,
}

impl Key {
    pub(crate) fn new(quota: Quota, now: Micros) -> Self {
        let state = quota.fresh();
        Self {
            quota,
            state,
            now,
            retry: 0,
        }
    }

    /// Lets time pass, and decides one request. Returns its cost and its verdict.
    pub(crate) fn meet(&mut self, op: Op) -> (u64, Verdict) {
        let cost = self.wait(op);
        let verdict = request(&self.quota, &mut self.state, cost, self.now);
        self.retry = verdict.retry_after;
        (cost, verdict)
    }

    /// Lets time pass until `op`, and returns its cost.
    pub(crate) fn wait(&mut self, op: Op) -> u64 {
        let (period, capacity) = (period(&self.quota), self.quota.capacity());
        let step = match op.step {
            Step::Micros(micros) => micros,
            Step::Units(share) => (period / capacity).saturating_mul(share) / 1_000,
            Step::Periods(share) => period / 1_000 * share + period % 1_000 * share / 1_000,
            Step::Edge(more) => (period - self.now % period + more).saturating_sub(1),
            Step::Retry { early } => self.retry.saturating_sub(u64::from(early)),
        };
        // A step is at most two months, so that all traffic stays in this century.
        self.now += step.min(60 * DAY);
        let cost = match op.cost {
            Cost::Few(units) => units,
            Cost::Share(share) => capacity * share / 1_000,
        };
        cost.clamp(1, capacity)
    }

    /// Decides one request now.
    pub(crate) fn request(&mut self, cost: u64) -> Verdict {
        request(&self.quota, &mut self.state, cost, self.now)
    }

    /// Charges the whole capacity.
    pub(crate) fn charge_all(&mut self) {
        let capacity = self.quota.capacity();
        self.request(capacity);
    }

    /// The verdict on a request now, without a charge.
    pub(crate) fn ask(&self, cost: u64) -> Verdict {
        self.ask_at(cost, self.now)
    }

    pub(crate) fn ask_at(&self, cost: u64, now: Micros) -> Verdict {
        self.quota.check(&mut self.state.clone(), cost, now)
    }
}

/// Decides a request, and charges it if it is allowed.
pub(crate) fn request(quota: &Quota, state: &mut State, cost: u64, now: Micros) -> Verdict {
    let mut verdict = quota.check(state, cost, now);
    if verdict.allowed {
        quota.commit(state, cost, now, &mut verdict);
    }
    verdict
}

/// The longest time by which a time stamp may be ahead of the clock: the window, or the time in which a full bucket is paid off.
pub(crate) fn period(quota: &Quota) -> Micros {
    match quota {
        Quota::TokenBucket(quota) => quota.meter().numbers()[3],
        Quota::LeakyBucket(quota) => quota.meter().numbers()[3],
        Quota::CalendarWindow(_) => DAY,
        _ => quota.period(),
    }
}

/// Some time in this century.
pub(crate) fn start() -> impl Strategy<Value = Micros> {
    1_600_000_000 * SECOND..1_900_000_000 * SECOND
}

pub(crate) fn traffic(longest: usize) -> impl Strategy<Value = Vec<Op>> {
    vec(op(), 1..longest)
}

fn op() -> impl Strategy<Value = Op> {
    let cost = prop_oneof![
        3 => (1..4_u64).prop_map(Cost::Few),
        1 => (0..=1_000_u64).prop_map(Cost::Share),
        1 => Just(Cost::Share(1_000)),
    ];
    let step = prop_oneof![
        3 => Just(Step::Micros(0)),
        2 => (1..4_u64).prop_map(Step::Micros),
        3 => (0..3_000_u64).prop_map(Step::Units),
        2 => (0..2_200_u64).prop_map(Step::Periods),
        1 => (0..3_u64).prop_map(Step::Edge),
        3 => any::<bool>().prop_map(|early| Step::Retry { early }),
    ];
    (cost, step).prop_map(|(cost, step)| Op { cost, step })
}

/// A quota of any algorithm.
pub(crate) fn quota() -> impl Strategy<Value = Quota> {
    prop_oneof![
        bucket().prop_map(|(capacity, rate)| TokenBucket::new(capacity, rate).unwrap().into()),
        bucket().prop_map(|(capacity, rate)| LeakyBucket::new(capacity, rate).unwrap().into()),
        (most(), window()).prop_map(|(most, window)| fixed(most, window).into()),
        (few(), window()).prop_map(|(most, window)| log(most, window).into()),
        (most(), window()).prop_map(|(most, window)| counter(most, window).into()),
        most().prop_map(|most| CalendarWindow::new(most, &DAYS).unwrap().into()),
    ]
}

/// A calendar of equal days, by which a calendar window equals a fixed window of a day.
static DAYS: LazyLock<Calendar> = LazyLock::new(|| {
    let days: Vec<Micros> = (0..50_000).map(|day| day * DAY).collect();
    Calendar::new("1d", days).unwrap()
});

/// A capacity and a rate that fit each other.
pub(crate) fn bucket() -> impl Strategy<Value = (u64, Rate)> {
    let count = prop_oneof![Just(1), Just(10), Just(999_983), most()];
    (most(), count, window()).prop_map(|(capacity, count, per)| {
        let rate = Rate { count, per };
        match TokenBucket::new(capacity, rate) {
            Err(QuotaError::TooLarge { largest, .. }) => (largest, rate),
            _ => (capacity, rate),
        }
    })
}

pub(crate) fn fixed(limit: u64, window: Micros) -> FixedWindow {
    FixedWindow::new(limit, window).unwrap()
}

pub(crate) fn log(limit: u64, window: Micros) -> SlidingWindowLog {
    SlidingWindowLog::new(limit, window).unwrap()
}

/// A counter. A window of an hour or more is cut to whole milliseconds, as the counter requires.
pub(crate) fn counter(limit: u64, window: Micros) -> SlidingWindowCounter {
    let window = if window < HOUR {
        window
    } else {
        window - window % MS
    };
    SlidingWindowCounter::new(limit, window).unwrap()
}

/// A number of units, up to a million.
pub(crate) fn most() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(1),
        2..20_u64,
        20..=1_000_000_u64,
        Just(999_983),
        Just(1_000_000),
    ]
}

/// A number of units for a log. It is small, because the test's time grows with the number.
pub(crate) fn few() -> impl Strategy<Value = u64> {
    prop_oneof![Just(1), 2..20_u64, 20..=500_u64]
}

pub(crate) fn window() -> impl Strategy<Value = Micros> {
    prop_oneof![
        Just(MS),
        Just(SECOND),
        Just(59 * 60 * SECOND),
        Just(HOUR - 1),
        Just(HOUR),
        Just(DAY),
        Just(31 * DAY),
        MS..SECOND,
        SECOND..HOUR,
        HOUR..=31 * DAY,
    ]
}
