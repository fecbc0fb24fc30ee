//! The way in which gateways share a limit (`mode`, `sync_every`), and the decision without Redis (`on_failure`).

use std::time::Duration;

use tidegate_core::Quota;
use tidegate_store::Mode;

use super::WrittenLimit;
use crate::check::Check;
use crate::store::redis::sync_every;
use crate::value::Scalar;
use crate::value::word::LimitName;
use crate::yaml::Problem;

/// Reads the limit's own `sync_every`. `None` if the limit has the store's.
pub(super) fn own_sync_every(check: &mut Check<'_>, limit: &WrittenLimit) -> Option<Duration> {
    sync_every(
        check,
        limit.sync_every.as_ref(),
        "the store's is the default",
    )
}

/// Warns of `on_failure` and `mode`, which have an effect with Redis only, and of `sync_every` in a limit that is not synced.
pub(super) fn without_effect(
    check: &mut Check<'_>,
    limit: &WrittenLimit,
    mode: Mode,
    in_memory: bool,
) {
    let note = match in_memory {
        true => Some("with `store: memory` no other gateway shares the limit"),
        false if mode != Mode::Synced => Some("the limit does not have `mode: synced`"),
        false => None,
    };
    if let (Some(scalar), Some(note)) = (&limit.sync_every, note) {
        let problem = Problem::new(scalar.place, "`sync_every` has no effect here");
        check.warn(problem.note(note));
    }
    if !in_memory {
        return;
    }
    if let Some(scalar) = &limit.on_failure {
        let problem = Problem::new(scalar.place, "`on_failure` has no effect here");
        check.warn(problem.note("with `store: memory` the store cannot fail"));
    }
    if let Some(scalar) = &limit.mode {
        let problem = Problem::new(scalar.place, "`mode` has no effect here");
        check.warn(problem.note("with `store: memory` no other gateway shares the limit"));
    }
}

/// Refuses a mode that the limit's algorithm cannot have.
pub(super) fn mode_fits(
    check: &mut Check<'_>,
    name: &Scalar<LimitName>,
    limit: &WrittenLimit,
    quota: &Quota,
    mode: Mode,
) {
    let allowed = quota.modes();
    if allowed.contains(&mode) {
        return;
    }
    let what = match quota.calendar() {
        Some(_) => "window of days or months",
        None => quota.algorithm(),
    };
    let message = format!("a {what} cannot be {}", mode.word());
    let allowed: Vec<_> = allowed.iter().map(|mode| mode.word()).collect();
    let allowed = format!("allowed here: {}", allowed.join(", "));
    check.refuse(unfit_mode(name, limit, message).note(allowed));
}

/// Returns the problem of a mode that a limit cannot have. The problem points to the `mode` of the limit. If the limit lacks `mode`, the
/// problem points to the limit's name.
pub(crate) fn unfit_mode(
    name: &Scalar<LimitName>,
    limit: &WrittenLimit,
    message: String,
) -> Problem {
    match &limit.mode {
        Some(scalar) => Problem::new(scalar.place, message),
        None => Problem::new(name.place, message)
            .note("the store's `mode` is meant for all limits; this one needs its own"),
    }
}
