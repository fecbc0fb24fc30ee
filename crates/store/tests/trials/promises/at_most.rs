//! The most that each algorithm admits from the budget that all gateways share, whichever gateways admit it.

use tidegate_core::Micros;
use tidegate_store::Mode;

use super::budget::{Budget, Weighed, admitted, most_generous};
use super::{Breach, Promise};
use crate::history::{History, Span};
use crate::law::{Kind, Numbers};

pub(super) const TOKEN_BUCKET: Promise = Promise {
    name: "token_bucket",
    words: "A `token_bucket` of capacity C and refill n per P admits at most C + n × t / P in any time span t.",
    check: |history| exact(history, Kind::TokenBucket, &TOKEN_BUCKET, most),
};

pub(super) const LEAKY_BUCKET: Promise = Promise {
    name: "leaky_bucket",
    words: "A `leaky_bucket` of queue Q and drain n per P admits at most Q + n × t / P in any time span t.",
    check: |history| exact(history, Kind::LeakyBucket, &LEAKY_BUCKET, most),
};

pub(super) const FIXED_WINDOW: Promise = Promise {
    name: "fixed_window",
    words: "A `fixed_window` admits at most its limit in each window.",
    check: |history| {
        let mut broken = exact(history, Kind::FixedWindow, &FIXED_WINDOW, most);
        broken.extend(exact(history, Kind::Calendar, &FIXED_WINDOW, most));
        broken
    },
};

pub(super) const LOG: Promise = Promise {
    name: "sliding_window_log",
    words: "A `sliding_window_log` admits at most its limit in any time span of one window.",
    check: |history| exact(history, Kind::Log, &LOG, most),
};

pub(super) const COUNTER: Promise = Promise {
    name: "sliding_window_counter",
    words: "A `sliding_window_counter` admits a request only if its estimate, with the request, is at most its limit.",
    check: |history| exact(history, Kind::Counter, &COUNTER, most),
};

pub(super) const COUNTER_WINDOW: Promise = Promise {
    name: "sliding_window_counter_worst",
    words: "A `sliding_window_counter` admits less than twice its limit in any time span of one window.",
    check: |history| {
        let less_than_twice = |law: &Law<'_>, charges: &[Weighed]| {
            let numbers = Numbers {
                limit: 2 * law.numbers.limit - 1,
                ..law.numbers
            };
            let law = Law {
                numbers,
                kind: Kind::Log,
                ..*law
            };
            most(&law, charges)
        };
        exact(history, Kind::Counter, &COUNTER_WINDOW, less_than_twice)
    },
};

pub(super) const LEASED: Promise = Promise {
    name: "leased",
    words: "Under `mode: leased` all gateways together never admit more than the limit.",
    check: |history| in_mode(history, Mode::Leased, None, &LEASED, most),
};

pub(super) const SYNCED: Promise = Promise {
    name: "synced",
    words: "Under `mode: synced` gateways admit more than the limit by no more than what the other gateways admit in two \
            `sync_every` and one exchange.",
    check: |history| {
        let with_overshoot = |law: &Law<'_>, charges: &[Weighed]| {
            let beyond = overshoot(charges, law.unseen);
            let limit = law.numbers.limit + beyond;
            let numbers = Numbers {
                limit,
                ..law.numbers
            };
            most(&Law { numbers, ..*law }, charges)
        };
        in_mode(history, Mode::Synced, None, &SYNCED, with_overshoot)
    },
};

/// The longest time for which a slice is lent.
pub(super) const SLICE: Micros = 2_600_000;

/// All these promises.
pub(super) const ALL: &[Promise] = &[
    TOKEN_BUCKET,
    LEAKY_BUCKET,
    FIXED_WINDOW,
    LOG,
    COUNTER,
    COUNTER_WINDOW,
    LEASED,
    SYNCED,
];

/// The rule for the units that a budget may admit.
#[derive(Clone, Copy)]
pub(super) struct Law<'a> {
    pub(super) kind: Kind,
    pub(super) numbers: Numbers,
    pub(super) window: Micros,
    /// The spans in which used units were lost.
    pub(super) forgotten: &'a [Span],
    /// The longest time until a gateway receives the counts of others.
    pub(super) unseen: Micros,
}

/// More units than a law allows.
pub(super) struct Excess {
    pub(super) span: Span,
    pub(super) admitted: u64,
    pub(super) allowed: f64,
}

type Judge = fn(&Law<'_>, &[Weighed]) -> Option<Excess>;

fn exact(history: &History, kind: Kind, promise: &Promise, judge: Judge) -> Vec<Breach> {
    let mut broken = in_mode(history, Mode::Exact, Some(kind), promise, judge);
    if history.in_memory {
        for mode in [Mode::Leased, Mode::Synced, Mode::Local] {
            broken.extend(in_mode(history, mode, Some(kind), promise, judge));
        }
    }
    broken
}

fn in_mode(
    history: &History,
    mode: Mode,
    kind: Option<Kind>,
    promise: &Promise,
    judge: Judge,
) -> Vec<Breach> {
    let mut broken = Vec::new();
    for (limit, key) in history.keys() {
        let known = &history.limits[limit];
        if known.mode != mode
            || known.becomes.is_some()
            || kind.is_some_and(|kind| kind != known.kind)
            || known.kind == Kind::Concurrency
        {
            continue;
        }
        let Some(numbers) = most_generous(history, limit, key) else {
            continue;
        };
        let mut forgotten = history.forgotten(limit, key);
        if mode == Mode::Leased {
            // Slices that were lent before a reset can be spent until they lapse.
            forgotten.iter_mut().for_each(|span| span.end += SLICE);
        }
        let law = Law {
            kind: known.kind,
            numbers,
            window: known.window,
            forgotten: &forgotten,
            unseen: history.unseen,
        };
        let mut charges = admitted(history, limit, key, |budget| budget == Budget::Shared);
        if mode == Mode::Synced {
            // The gateway that makes a reset clears its count at once, and again when an exchange reports the reset.
            charges.retain(|charge| {
                let mut forgotten = forgotten.iter();
                !forgotten.any(|span| charge.at.meets(span.begin, span.end))
            });
        }
        if let Some(excess) = judge(&law, &charges) {
            broken.push(breach(promise.name, limit, key, &excess));
        }
    }
    broken
}

pub(super) fn breach(promise: &'static str, limit: usize, key: u64, excess: &Excess) -> Breach {
    let Excess {
        span,
        admitted,
        allowed,
    } = excess;
    let time = span.end - span.begin;
    Breach {
        promise,
        limit,
        key: Some(key),
        span: *span,
        what: format!("admitted {admitted}, allowed {allowed:.2} in {time} us"),
    }
}

/// The largest excess over a law.
pub(super) fn most(law: &Law<'_>, charges: &[Weighed]) -> Option<Excess> {
    let mut worst: Option<Excess> = None;
    for last in charges {
        let end = last.at.end;
        let start = end - end % law.window;
        let (mut admitted, mut previous) = (0, 0);
        for other in charges.iter().rev() {
            if other.at.end > end {
                continue;
            }
            let begin = other.at.begin;
            let (span, allowed) = match law.kind {
                Kind::TokenBucket | Kind::LeakyBucket => {
                    admitted += other.weight(end);
                    let paid = law.numbers.paid(end - begin);
                    (Span { begin, end }, paid)
                }
                Kind::Log => {
                    if end - begin >= law.window {
                        break;
                    }
                    admitted += other.weight(end);
                    (Span { begin, end }, 0.0)
                }
                Kind::FixedWindow | Kind::Calendar => {
                    if begin < start {
                        break;
                    }
                    admitted += other.weight(end);
                    (Span { begin, end }, 0.0)
                }
                Kind::Counter => {
                    if begin + law.window < start {
                        break;
                    }
                    if begin >= start {
                        admitted += other.weight(end);
                    } else if other.at.end < start {
                        previous += other.weight(end);
                    }
                    let begin = start - law.window;
                    (Span { begin, end }, 0.0)
                }
                Kind::Concurrency => return None,
            };
            let times = law.forgotten.iter();
            let times = times.filter(|at| at.meets(span.begin, span.end)).count() as u64 + 1;
            let allowed = allowed + (law.numbers.limit * times) as f64;
            let part = previous * (start + law.window - end) / law.window;
            let admitted = admitted + part;
            // The units paid off are computed in floating point here, so an excess of a millionth is no finding.
            let beyond = admitted as f64 - allowed;
            let is_worse = |worst: &Excess| beyond > worst.admitted as f64 - worst.allowed;
            if beyond > 1e-6 * allowed && worst.as_ref().is_none_or(is_worse) {
                worst = Some(Excess {
                    span,
                    admitted,
                    allowed,
                });
            }
        }
    }
    worst
}

/// The most units that each gateway admitted within this time, summed over all gateways but the gateway with the least.
pub(super) fn overshoot(charges: &[Weighed], within: Micros) -> u64 {
    let gateways = charges.iter().map(|charge| charge.gateway).max();
    let mut most: Vec<u64> = (0..=gateways.unwrap_or(0))
        .map(|gateway| {
            let own: Vec<&Weighed> = charges
                .iter()
                .filter(|charge| charge.gateway == gateway)
                .collect();
            let spans = own.iter().enumerate().map(|(first, begin)| {
                let inside = own[first..].iter();
                let inside = inside
                    .take_while(|charge| charge.at.begin <= begin.at.end.saturating_add(within));
                inside.map(|charge| charge.weight(0)).sum()
            });
            spans.max().unwrap_or(0)
        })
        .collect();
    most.sort_unstable();
    most.iter().skip(1).sum()
}
