//! Quotas: exactly one algorithm, whose numbers fit together.

use std::time::Duration;

use jiff::tz::TimeZone;
use tidegate_core::{
    CalendarWindow, Concurrency, FixedWindow, LeakyBucket, Quota, QuotaError, SlidingWindowCounter,
    SlidingWindowLog, TokenBucket, micros,
};

use crate::calendar::{Period, calendar};
use crate::file;
use crate::reading::Check;
use crate::value::{Count, Scalar, WindowLength, Zone};
use tidegate_yaml::{Place, Problem};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The algorithms as they are written; a calendar's windows are fixed ones.
const WRITTEN: [&str; 6] = [
    "token_bucket",
    "leaky_bucket",
    "fixed_window",
    "sliding_window_log",
    "sliding_window_counter",
    "concurrency",
];

/// How long a place outlives a gateway that dies, unless that is said.
const LEASE: Duration = Duration::from_secs(10);
/// The shortest lease: it is renewed a few times before it lapses.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);

/// From this limit on, what an exact log keeps per client is worth a warning: 80 KB.
const LONG_LOG: u64 = 10_000;

/// The one algorithm that stands there, and its numbers; `whose` they are and where that stands is for messages.
pub(crate) fn quota(
    check: &mut Check<'_>,
    whose: &str,
    place: Option<Place>,
    written: [Option<WrittenQuota<'_>>; 6],
) -> Option<Quota> {
    let mut written = written.into_iter().flatten();
    let many = match (written.next(), written.next()) {
        (Some(only), None) => return numbers(check, &only),
        (None, _) => "no algorithm",
        (Some(_), Some(_)) => "more than one algorithm",
    };
    let allowed = WRITTEN.join(", ");
    check.refuse(
        Problem::new(place, format!("{whose} has {many}"))
            .note(format!("allowed here: exactly one of {allowed}")),
    );
    None
}

fn numbers(check: &mut Check<'_>, written: &WrittenQuota<'_>) -> Option<Quota> {
    match *written {
        WrittenQuota::TokenBucket(file::TokenBucket { capacity, refill }) => {
            let (count, rate) = (check.read(capacity), check.read(refill));
            let quota = TokenBucket::new(count?.0, rate?).map(Quota::from);
            fit(check, quota, capacity, refill.place)
        }
        // Whether requests wait for their turn is no number.
        WrittenQuota::LeakyBucket(file::LeakyBucket { queue, drain, .. }) => {
            let (count, rate) = (check.read(queue), check.read(drain));
            let quota = LeakyBucket::new(count?.0, rate?).map(Quota::from);
            fit(check, quota, queue, drain.place)
        }
        WrittenQuota::Fixed(written) => fixed_window(check, written),
        WrittenQuota::Window(file::Window { limit, window }, kind) => {
            let (count, length) = (check.read(limit), check.read(window));
            let (count, length) = (count?.0, micros(length?));
            if kind == Kind::Log && count > LONG_LOG {
                long_log(check, limit, count);
            }
            let quota = match kind {
                Kind::Log => SlidingWindowLog::new(count, length).map(Quota::from),
                Kind::Counter => SlidingWindowCounter::new(count, length).map(Quota::from),
            };
            fit(check, quota, limit, window.place)
        }
        WrittenQuota::Concurrency(file::Concurrency { limit, lease }) => {
            let (count, length) = (check.read(limit), check.read_some(lease.as_ref()));
            let place = lease.as_ref().and_then(|scalar| scalar.place);
            if length.is_some_and(|length| length < SHORTEST_LEASE) {
                let problem = Problem::new(place, "the shortest lease is 1s");
                check.refuse(problem.note("the gateway renews the lease while the request runs"));
                return None;
            }
            let quota = Concurrency::new(count?.0, micros(length.unwrap_or(LEASE)));
            fit(check, quota.map(Quota::from), limit, place)
        }
    }
}

fn fixed_window(check: &mut Check<'_>, written: &file::FixedWindow) -> Option<Quota> {
    let file::FixedWindow {
        limit,
        window,
        zone,
    } = written;
    let (count, length) = (check.read(limit), check.read(window));
    let named = check.read_some(zone.as_ref());
    let period = match (length?, zone) {
        (WindowLength::Month, _) => Period::Month,
        (WindowLength::Even(DAY), Some(_)) => Period::Day,
        (WindowLength::Even(_), Some(scalar)) => {
            check.refuse(
                Problem::new(scalar.place, "a `zone` has no effect on this window")
                    .note("only windows of 1d and 1mo begin by a time zone"),
            );
            return None;
        }
        (WindowLength::Even(length), None) => {
            let quota = FixedWindow::new(count?.0, micros(length)).map(Quota::from);
            return fit(check, quota, limit, window.place);
        }
    };
    let zone = match (named, zone) {
        (Some(Zone(zone)), _) => zone,
        (None, None) => TimeZone::UTC,
        (None, Some(_)) => return None,
    };
    // Every zone that can be written has a name.
    let calendar = calendar(period, &zone)?;
    let quota = CalendarWindow::new(count?.0, calendar).map(Quota::from);
    fit(check, quota, limit, window.place)
}

/// A quota, if its numbers fit together; else the number that does not is pointed at.
fn fit(
    check: &mut Check<'_>,
    quota: Result<Quota, QuotaError>,
    count: &Scalar<Count>,
    time: Option<Place>,
) -> Option<Quota> {
    let error = match quota {
        Ok(quota) => return Some(quota),
        Err(error) => error,
    };
    let place = match error {
        QuotaError::TooLarge { .. } => count.place,
        QuotaError::Zero(what) if !matches!(what, "window" | "rate") => count.place,
        _ => time,
    };
    check.refuse(Problem::new(place, error.to_string()));
    None
}

fn long_log(check: &mut Check<'_>, limit: &Scalar<Count>, count: u64) {
    let kilobytes = count.saturating_mul(8) / 1_000;
    check.warn(
        Problem::new(limit.place, "an exact log of this length is costly").note(format!(
            "every client may take {kilobytes} KB; sliding_window_counter takes a few bytes"
        )),
    );
}

/// An algorithm with its numbers, as written.
#[derive(Clone, Copy)]
pub(super) enum WrittenQuota<'a> {
    TokenBucket(&'a file::TokenBucket),
    LeakyBucket(&'a file::LeakyBucket),
    Fixed(&'a file::FixedWindow),
    Window(&'a file::Window, Kind),
    Concurrency(&'a file::Concurrency),
}

/// What stands under each algorithm's key.
macro_rules! written {
    ($of:expr) => {{
        let of = $of;
        [
            of.token_bucket.as_ref().map(WrittenQuota::TokenBucket),
            of.leaky_bucket.as_ref().map(WrittenQuota::LeakyBucket),
            of.fixed_window.as_ref().map(WrittenQuota::Fixed),
            WrittenQuota::window(&of.sliding_window_log, Kind::Log),
            WrittenQuota::window(&of.sliding_window_counter, Kind::Counter),
            of.concurrency.as_ref().map(WrittenQuota::Concurrency),
        ]
    }};
}

impl<'a> WrittenQuota<'a> {
    /// The algorithms of a limit.
    pub(super) fn of_limit(limit: &'a file::Limit) -> [Option<Self>; 6] {
        written!(limit)
    }

    /// The algorithms of a plan's quota.
    pub(super) fn of_plan(quota: &'a file::PlanQuota) -> [Option<Self>; 6] {
        written!(quota)
    }

    fn window(window: &'a Option<file::Window>, kind: Kind) -> Option<Self> {
        Some(Self::Window(window.as_ref()?, kind))
    }

    /// Where the number stands that says how much it admits at once.
    pub(super) const fn capacity_place(&self) -> Option<Place> {
        match self {
            Self::TokenBucket(bucket) => bucket.capacity.place,
            Self::LeakyBucket(bucket) => bucket.queue.place,
            Self::Fixed(window) => window.limit.place,
            Self::Window(window, _) => window.limit.place,
            Self::Concurrency(places) => places.limit.place,
        }
    }

    /// Where its window stands, if it has one.
    pub(super) const fn window_place(&self) -> Option<Place> {
        match self {
            Self::TokenBucket(_) | Self::LeakyBucket(_) | Self::Concurrency(_) => None,
            Self::Fixed(window) => window.window.place,
            Self::Window(window, _) => window.window.place,
        }
    }
}

/// The algorithms that have a sliding window.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Log,
    Counter,
}
