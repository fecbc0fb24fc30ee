//! The history of a trial: changes with their answers, and looks at the overrides of each gateway. Promises are judged by it alone.
//!
//! Times are those of this machine's clock, in us.

use tidegate_core::Micros;

use crate::case::{Condition, Ends};

/// Later than all else, with room to add to it.
pub(crate) const FOREVER: Micros = Micros::MAX / 4;

/// The start of the kinds of trouble in which a gateway does not run.
pub(crate) const PAUSED: &str = "gateway paused";

/// The kind of trouble in which this machine does not run what it should.
const STALL: &str = "stall";

/// The longest time in which a gateway that runs again ends the overrides of its pause.
const WAKING: Micros = 100_000;

/// A history.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) subjects: usize,
    pub(crate) changes: Vec<Change>,
    pub(crate) looks: Vec<Look>,
    pub(crate) troubles: Vec<Trouble>,
    pub(crate) steps: Vec<Step>,
    /// Times in which data of Redis was lost, from the first write that may be lost.
    pub(crate) losses: Vec<Span>,
    pub(crate) lives: Vec<Life>,
    /// When all faults were over and all gateways had the same overrides; none: they never had.
    pub(crate) converged: Option<Micros>,
    pub(crate) bounds: Bounds,
}

/// The times that the promises speak of, as long as they are in a trial.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds {
    /// A change is in force on all gateways within this time.
    pub(crate) reach: Micros,
    /// A gateway that Redis answered this long ago reaches it.
    pub(crate) heard: Micros,
    /// A gateway estimates Redis's clock this well.
    pub(crate) clock: Micros,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) begin: Micros,
    pub(crate) end: Micros,
}

/// A change, and its answer.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// Each change has another number, which the reason of its override names.
    pub(crate) id: u64,
    pub(crate) gateway: usize,
    pub(crate) subject: usize,
    pub(crate) condition: Condition,
    pub(crate) sets: Option<Ends>,
    /// From the call to its answer.
    pub(crate) span: Span,
    pub(crate) answer: Answer,
}

#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Set {
        version: u64,
        ends: Option<Micros>,
        before: Option<Entry>,
    },
    Cleared {
        version: u64,
        before: Option<Entry>,
    },
    /// No override was in force.
    Nothing,
    /// Another override than the expected one is in force, or none.
    Conflict(Option<Entry>),
    /// It was refused for another reason, and not made.
    Refused,
    /// 503.
    Failed(#[expect(dead_code, reason = "a report shows it")] String),
    /// The gateway was killed before it answered.
    Killed,
}

/// An override as a gateway has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The change that set it.
    pub(crate) change: u64,
    pub(crate) version: u64,
    pub(crate) ends: Option<Micros>,
}

/// The overrides of a gateway at a moment.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) gateway: usize,
    pub(crate) span: Span,
    /// By subject, those that requests meet.
    pub(crate) enforced: Vec<Option<Entry>>,
    /// By subject, those that it lists.
    pub(crate) listed: Vec<Option<Entry>>,
    /// The time since Redis last answered.
    pub(crate) heard: Option<Micros>,
}

/// A time in which a gateway, or all, may not do what they should.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) gateway: Option<usize>,
    pub(crate) kind: &'static str,
    pub(crate) span: Span,
}

/// A step of Redis's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) span: Span,
    /// From then on it is ahead of this machine's clock by this much.
    pub(crate) ahead: i64,
}

/// The life of a gateway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    pub(crate) gateway: usize,
    pub(crate) span: Span,
}

impl Span {
    pub(crate) const fn meets(&self, other: &Self) -> bool {
        self.begin <= other.end && other.begin <= self.end
    }
}

impl Change {
    /// Whether it was made, by its answer.
    pub(crate) const fn is_made(&self) -> bool {
        matches!(self.answer, Answer::Set { .. } | Answer::Cleared { .. })
    }

    /// Whether it may have been made.
    pub(crate) const fn may_be_made(&self) -> bool {
        self.is_made() || matches!(self.answer, Answer::Failed(_) | Answer::Killed)
    }
}

impl History {
    /// Returns by how much Redis's clock may have been ahead of this machine's within a span.
    pub(crate) fn ahead(&self, span: Span) -> Vec<i64> {
        let mut ahead = vec![0];
        for step in &self.steps {
            if step.span.end < span.begin {
                ahead.clear();
            }
            if step.span.begin <= span.end {
                ahead.push(step.ahead);
            }
        }
        ahead
    }

    /// Returns the earliest and the latest time that Redis's clock may have shown within a span.
    pub(crate) fn redis_time(&self, span: Span) -> Span {
        let ahead = self.ahead(span);
        let least = ahead.iter().min().copied().unwrap_or(0);
        let most = ahead.iter().max().copied().unwrap_or(0);
        Span {
            begin: span.begin.saturating_add_signed(least),
            end: span.end.saturating_add_signed(most),
        }
    }

    pub(crate) fn has_step_back(&self) -> bool {
        let mut before = 0;
        self.steps.iter().any(|step| {
            let is_back = step.ahead < before;
            before = step.ahead;
            is_back
        })
    }

    /// Whether a gateway, or this machine, stood still shortly before a span: the gateway has not seen yet which overrides have
    /// ended.
    pub(crate) fn has_just_run_again(&self, gateway: usize, span: Span) -> bool {
        let before = Span {
            begin: span.begin.saturating_sub(WAKING),
            end: span.end,
        };
        self.troubles.iter().any(|trouble| {
            let stood_still = match trouble.gateway {
                Some(of) => of == gateway && trouble.kind.starts_with(PAUSED),
                None => trouble.kind == STALL,
            };
            stood_still && trouble.span.meets(&before)
        })
    }

    /// Whether a gateway, or all, had trouble within a span.
    pub(crate) fn is_troubled(&self, gateway: usize, span: Span) -> bool {
        self.troubles.iter().any(|trouble| {
            trouble.gateway.is_none_or(|other| other == gateway) && trouble.span.meets(&span)
        })
    }
}
