//! A change that is wished for, and what becomes of it.

use std::fmt;
use std::io;
use std::sync::Arc;

use tidegate_core::Micros;
use tidegate_redis::CallError;

use crate::exchange::{Done, Ends, Expected, Order};
use crate::name::Subject;
use crate::replica::{Content, Record};
use crate::setting::{Clearing, Override, Setting};

/// A change that is wished for.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Whom the override is for.
    pub subject: Subject,
    /// What must be in force.
    pub expected: Expected,
    /// When it ends; of no effect where it is cleared.
    pub ends: Ends,
    /// What becomes of it.
    pub intent: Intent,
}

/// What becomes of an override.
#[derive(Clone, Debug)]
pub enum Intent {
    /// It says this.
    Set(Setting),
    /// There is none any more.
    Clear(Clearing),
}

impl Wish {
    /// The wish that a name has no override.
    pub const fn clear(subject: Subject, expected: Expected, clearing: Clearing) -> Self {
        Self {
            subject,
            expected,
            ends: Ends::Never,
            intent: Intent::Clear(clearing),
        }
    }
}

/// What became of a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in force on this gateway, and within a second on all others.
    Set {
        /// What was in force.
        before: Option<Previous>,
        /// What is in force, unless it has ended since.
        after: Override,
    },
    /// It is not in force any more.
    Cleared {
        /// What was in force.
        before: Previous,
    },
    /// There was nothing to clear.
    Nothing,
    /// Something else is in force than was expected: this.
    Conflict(Option<Override>),
    /// There are [`MAX_OVERRIDES`] already.
    Full,
    /// It would have ended already.
    Over,
}

/// What a change took the place of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Previous {
    /// This.
    Override(Override),
    /// Something that this version of the program cannot read.
    Unreadable {
        /// Its version.
        version: u64,
        /// When it would have ended, in us since the epoch; none: never.
        ends: Option<Micros>,
    },
}

/// Why no change was made.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// Redis did not answer as it should. Whether the change was made is not known if it did not answer in time.
    #[error(transparent)]
    Store(#[from] CallError),
    /// The file of overrides cannot be written.
    #[error("the file of overrides cannot be written: {0}")]
    File(#[from] io::Error),
    /// The gateway ends.
    #[error("the gateway is stopping")]
    Ended,
}

/// A change of several that ended early.
#[derive(thiserror::Error)]
#[error("{error}")]
pub struct Unfinished {
    /// What became of the first.
    pub outcomes: Vec<Outcome>,
    /// Why nobody knows what became of the others.
    pub error: ChangeError,
}

impl fmt::Debug for Unfinished {
    /// Without the outcomes, which may be many.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, error) = (self.outcomes.len(), &self.error);
        write!(f, "{error:?} after {count} outcomes")
    }
}

impl Wish {
    pub(super) fn order(self) -> Order {
        Order {
            subject: self.subject,
            expected: self.expected,
            ends: self.ends,
            content: match self.intent {
                Intent::Set(setting) => Content::Set(Arc::new(setting)),
                Intent::Clear(clearing) => Content::Cleared(Arc::new(clearing)),
            },
        }
    }
}

impl Outcome {
    /// What became of an order, by the time at which the store has judged it: by now a short override may have ended.
    pub(super) fn of(order: &Order, done: Done) -> Self {
        let subject = &order.subject;
        let previous = |record: Record| match record.says(subject) {
            Some(it) => Previous::Override(it),
            None => Previous::Unreadable {
                version: record.version,
                ends: record.ends,
            },
        };
        match done {
            Done::Made { record, before } => match (record.says(subject), before.map(previous)) {
                (Some(after), before) => Self::Set { before, after },
                (None, before) => Self::Cleared {
                    // A version that is no number stood there.
                    before: before.unwrap_or(Previous::Unreadable {
                        version: 0,
                        ends: None,
                    }),
                },
            },
            Done::Nothing => Self::Nothing,
            Done::Conflict { current } => {
                Self::Conflict(current.and_then(|current| current.says(subject)))
            }
            Done::Full => Self::Full,
            Done::Over => Self::Over,
        }
    }
}
