//! An outage is noticed, so that decisions no longer wait for Redis.

use tidegate_core::Micros;
use tidegate_store::StoreError;

use super::{Breach, Promise};
use crate::history::{History, Request, Said, Span};

/// The number of timeouts in a row after which most decisions make no call.
const TIMEOUTS: usize = 5;

/// The tolerance for the length of one timeout.
const SLACK: Micros = 15_000;

/// More than the pause between two calls in an outage and the longest wait for such a call, in us.
const TRY: Micros = 300_000;

/// The least number of decisions in this time that show an outage that is not noticed.
const MANY: usize = 8;

pub(super) const NOTICED: Promise = Promise {
    name: "noticed",
    words: "After five timeouts in a row most decisions do not wait for Redis. Decisions that wait for less than the timeout count \
            together as one timeout in that time.",
    check: |history| {
        let mut gateways: Vec<usize> = history.requests.iter().map(|it| it.gateway).collect();
        gateways.sort_unstable();
        gateways.dedup();
        let outages = history.outages.iter();
        let outages = outages.filter(|_| history.judges_gateways());
        let of_each = |outage| {
            let gateways = gateways.iter();
            gateways.filter_map(move |gateway| unnoticed(history, outage, *gateway))
        };
        outages.flat_map(of_each).collect()
    },
};

/// The time for which this machine stalled in an outage, so that timeouts took longer.
fn stalled(history: &History, outage: &Span) -> Micros {
    let stalls = history.troubles.iter().filter(|it| it.kind == "stall");
    let stalls = stalls.filter(|it| it.span.meets(outage.begin, outage.end));
    stalls.map(|it| it.span.end - it.span.begin).sum()
}

/// Finds an outage in which a gateway goes on to wait for Redis.
fn unnoticed(history: &History, outage: &Span, gateway: usize) -> Option<Breach> {
    let own = history.requests.iter();
    let own = own.filter(|request| request.gateway == gateway);
    let within = own.filter(|it| outage.begin <= it.asked.begin && it.asked.end <= outage.end);
    let mut failed: Vec<&Request> = within.filter(|it| error(it).is_some()).collect();
    failed.sort_by_key(|request| request.asked.end);
    let vain = failed.iter().filter(|request| is_vain(request));
    let ends: Vec<Micros> = vain.map(|request| request.asked.end).collect();
    let noticed = noticed(&ends, history.timeout + SLACK)? + stalled(history, outage);
    let after = failed.iter().filter(|it| it.asked.begin > noticed);
    let (first, last) = (after.clone().next()?, after.clone().next_back()?);
    let is_long = last.asked.end - first.asked.begin > TRY && after.clone().count() >= MANY;
    let is_noticed = after.clone().any(|request| !is_vain(request));
    (is_long && !is_noticed).then(|| Breach {
        promise: NOTICED.name,
        limit: first.charges[0].limit,
        key: Some(first.charges[0].key),
        span: first.asked,
        what: format!(
            "gateway {gateway}: all of {} decisions waited in vain, from {} us after the begin of an outage",
            after.count(),
            first.asked.begin - outage.begin
        ),
    })
}

/// The time until which the last timeout in a row surely ended, if each timeout begins with the end of a vain decision.
fn noticed(ends: &[Micros], timeout: Micros) -> Option<Micros> {
    let (mut begun, mut over) = (0, 0);
    for _ in 0..TIMEOUTS {
        let next = ends.iter().find(|end| **end > begun)?;
        begun = (*next).max(over);
        over = begun + timeout;
    }
    Some(over)
}

/// Whether a decision waited for Redis in vain.
fn is_vain(request: &Request) -> bool {
    error(request).is_some_and(|error| *error == StoreError::Timeout.to_string())
}

const fn error(request: &Request) -> Option<&String> {
    match &request.said {
        Said::Decided { error, .. } => error.as_ref(),
        Said::Aborted => None,
    }
}
