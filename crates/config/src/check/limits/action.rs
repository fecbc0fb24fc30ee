//! What becomes of refused requests, and which requests stay charged.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tidegate_core::Quota;
use tidegate_store::Mode;
use tidegate_tower::Action;

use crate::file::{self, SingleOr};
use crate::reading::Check;
use crate::value::{ActionWord, LimitName, Scalar, Status};
use tidegate_yaml::{Place, Problem};

/// The longest that a request may wait: its connection stays open meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// What a limit does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LimitAction {
    /// What becomes of a request that it refuses.
    pub(super) of_refused: Action,
    /// Whether it refuses nobody, and only counts.
    pub(super) observes: bool,
}

/// What makes a limit's charges reservations, and where that stands: which answers count, or what an answer says.
pub(super) fn reserving(limit: &file::Limit) -> Option<(&'static str, Option<Place>)> {
    if let Some(count) = &limit.count {
        return Some(("`count`", count.place));
    }
    match &limit.cost {
        Some(SingleOr::Block(block)) => {
            let reserve = block.value.reserve.as_ref();
            let told = block.value.response_header.as_ref();
            let place = reserve.map_or(told?.place, |scalar| scalar.place);
            Some(("a cost from the answer", place))
        }
        _ => None,
    }
}

pub(crate) fn action(
    check: &mut Check<'_>,
    limit: &file::Limit,
    quota: Option<&Quota>,
) -> LimitAction {
    let delay = match &limit.action {
        None => return LimitAction::default(),
        Some(SingleOr::Single(word)) => {
            let mut does = LimitAction::default();
            match check.read(word) {
                Some(ActionWord::Drop) => does.of_refused = Action::Drop,
                Some(ActionWord::Observe) => does.observes = true,
                Some(ActionWord::Reject) | None => {}
            }
            return does;
        }
        Some(SingleOr::Block(block)) => block,
    };
    let scalar = &delay.value.delay.max;
    let max = check.read(scalar).unwrap_or_default();
    if max > LONGEST_WAIT {
        check.refuse(Problem::new(scalar.place, "the longest wait is 1h"));
    }
    let why = match quota {
        Some(quota) if quota.is_queue() => {
            "what a leaky_bucket admits waits for its turn already, and what it refuses finds its queue full"
        }
        Some(quota) if quota.lease().is_some() => {
            "the time at which the next request ends is not known"
        }
        _ if limit.block.is_some() => "a limit with `block` refuses at once when it is exceeded",
        _ => {
            return LimitAction {
                of_refused: Action::Delay { max },
                observes: false,
            };
        }
    };
    let problem = Problem::new(delay.place, "this limit cannot delay").note(why);
    check.refuse(problem.note("allowed here: reject, drop, observe"));
    LimitAction::default()
}

/// The statuses of answers that stay charged; none: all do.
pub(crate) fn count(check: &mut Check<'_>, limit: &file::Limit) -> Option<Arc<[StatusCode]>> {
    let written = &limit.count.as_ref()?.value.status;
    let mut statuses = Vec::new();
    for scalar in &written.value {
        let Some(Status(status)) = check.read(scalar) else {
            continue;
        };
        if statuses.contains(&status) {
            let problem = Problem::new(scalar.place, format!("`{}` is here twice", scalar.raw));
            check.refuse(problem);
        }
        statuses.push(status);
    }
    if written.value.is_empty() {
        let problem = Problem::new(written.place, "an empty list counts no request");
        check.refuse(problem.note("name at least one status, such as 401"));
    }
    Some(statuses.into())
}

/// Whether requests go on at once that a leaky bucket admits.
pub(crate) fn has_nodelay(check: &mut Check<'_>, bucket: Option<&file::LeakyBucket>) -> bool {
    let scalar = bucket.and_then(|bucket| bucket.nodelay.as_ref());
    check.read_some(scalar).unwrap_or_default()
}

/// Refuses reservations where there can be none.
pub(crate) fn reserves_fit(
    check: &mut Check<'_>,
    name: &Scalar<LimitName>,
    limit: &file::Limit,
    quota: &Quota,
    mode: Mode,
) {
    let Some((what, place)) = reserving(limit) else {
        return;
    };
    let told = match &limit.cost {
        Some(SingleOr::Block(block)) => block.value.response_header.as_ref(),
        _ => None,
    };
    if let Some(scalar) = told.filter(|_| limit.count.is_some()) {
        let problem = Problem::new(
            scalar.place,
            "a charge is settled by a status or by a header, not by both",
        );
        check.refuse(problem.note("leave out `count`, or `response_header` and `reserve`"));
    }
    if quota.is_queue() || quota.lease().is_some() {
        let message = format!("a {} cannot have {what}", quota.algorithm());
        let problem = Problem::new(place, message);
        check.refuse(problem.note("such a limit is charged before the answer is known"));
    }
    if matches!(mode, Mode::Leased | Mode::Synced) {
        let place = limit
            .mode
            .as_ref()
            .map_or(name.place, |scalar| scalar.place);
        let message = format!("a limit with {what} cannot be {}", mode.word());
        let mut problem = Problem::new(place, message);
        if limit.mode.is_none() {
            problem =
                problem.note("the store's `mode` is meant for all limits; this one needs its own");
        }
        check.refuse(problem.note("allowed here: exact, local"));
    }
}
