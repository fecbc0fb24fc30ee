//! Versions follow the order of changes: a later change has a higher one, and a change that was refused has none of later.

use std::collections::HashMap;

use super::{Breach, REFUSED, SET};
use crate::history::{Answer, Change, FOREVER, History, Span};

/// Returns the versions of all changes, as far as an answer or a look has them.
pub(super) fn of(history: &History) -> HashMap<u64, u64> {
    let mut versions = HashMap::new();
    for change in &history.changes {
        if let Answer::Set { version, .. } | Answer::Cleared { version, .. } = change.answer {
            versions.insert(change.id, version);
        }
    }
    for look in &history.looks {
        let shown = look.enforced.iter().chain(&look.listed);
        for entry in shown.flatten() {
            versions.entry(entry.change).or_insert(entry.version);
        }
    }
    versions
}

pub(super) fn broken(history: &History) -> Vec<Breach> {
    let versions = of(history);
    let version = |change: &Change| versions.get(&change.id).copied();
    let mut broken = Vec::new();
    for first in &history.changes {
        let Some(of_first) = version(first) else {
            continue;
        };
        let is_refused = matches!(first.answer, Answer::Failed(_));
        if is_refused && history.has_step_back() {
            continue;
        }
        if is_refused && is_later(history, first, of_first) {
            broken.push(Breach {
                promise: REFUSED.name,
                subject: first.subject,
                at: first.span.end,
                text: format!("change {} was made after its answer", first.id),
            });
        }
        // A server that is behind in data and by its clock can give an older version.
        if history.has_step_back() && !history.losses.is_empty() {
            continue;
        }
        for second in &history.changes {
            let is_after = second.subject == first.subject && second.span.begin > first.span.end;
            let is_older = is_after && version(second).is_some_and(|second| second <= of_first);
            if is_older {
                broken.push(Breach {
                    promise: if is_refused { REFUSED.name } else { SET.name },
                    subject: first.subject,
                    at: second.span.end,
                    text: format!(
                        "change {}, made after change {}, has an older version",
                        second.id, first.id
                    ),
                });
            }
        }
    }
    broken
}

/// Whether a version shows that its change was made after the answer: it is the time of the change by Redis's clock, as long as that
/// clock was not set back.
fn is_later(history: &History, change: &Change, version: u64) -> bool {
    let end = change.span.end;
    let answered = Span { begin: end, end };
    end < FOREVER && version > history.redis_time(answered).end
}
