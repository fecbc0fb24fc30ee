//! A change that an operator requests, and its outcome.

use std::io;
use std::time::Duration;

use tidegate_core::Micros;
use tidegate_redis::CallError;

use crate::name::Subject;
use crate::setting::{Clearing, Override, Setting};
use crate::table::{Entry, cleared};

/// The override that must be in force for a change to be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expected {
    /// Any override, or none.
    #[default]
    Any,
    /// No override.
    Nothing,
    /// An override of this version.
    Version(u64),
}

/// The end of an override.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Never.
    Never,
    /// At this duration after the change.
    After(Duration),
    /// At this time on the store's clock, in us since the epoch.
    At(Micros),
}

/// A change that an operator requests.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The client, network or limit of the override.
    pub subject: Subject,
    /// The override that must be in force for the change to be made.
    pub expected: Expected,
    /// The end of the override. A change that clears an override ignores it.
    pub ends: Ends,
    /// The effect of the change.
    pub intent: Intent,
}

/// The effect of a change.
#[derive(Clone, Debug)]
pub enum Intent {
    /// Sets an override with this content.
    Set(Setting),
    /// Clears the override.
    Clear(Clearing),
}

impl Wish {
    /// Makes the wish to clear the override of a name.
    pub const fn clear(subject: Subject, expected: Expected, clearing: Clearing) -> Self {
        Self {
            subject,
            expected,
            ends: Ends::Never,
            intent: Intent::Clear(clearing),
        }
    }

    /// Returns the content of the entry for this wish.
    pub(crate) fn content(&self) -> String {
        match &self.intent {
            // Strings can always be serialized, so the default is never used.
            Intent::Set(setting) => serde_json::to_string(setting).unwrap_or_default(),
            Intent::Clear(clearing) => cleared(clearing),
        }
    }
}

/// The outcome of a wish, and its new entry if the change was made.
pub(crate) type Done = (Outcome, Option<Entry>);

/// The outcome of a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The override was set. It is in force on this gateway now, and on all other gateways within 2 s.
    Set {
        /// The override that was in force.
        before: Option<Previous>,
        /// The override that was set. A short override may have ended already.
        after: Override,
    },
    /// The override was cleared.
    Cleared {
        /// The override that was in force.
        before: Previous,
        /// The version of this change.
        version: u64,
    },
    /// No override was in force to clear.
    Nothing,
    /// The override in force is not [`Wish::expected`]. Holds the override in force, if any.
    Conflict(Option<Override>),
    /// [`MAX_OVERRIDES`](crate::MAX_OVERRIDES) are already in force.
    Full,
    /// The end of the requested override has already passed.
    Over,
}

/// The override that a change replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Previous {
    /// The override.
    Override(Override),
    /// An override in a form that this version of the program cannot read.
    Unreadable {
        /// The version of the override.
        version: u64,
        /// The time at which the override would have ended, in us since the epoch. `None` for never.
        ends: Option<Micros>,
    },
}

impl Outcome {
    /// Returns the outcome of a change that made `entry` in place of `before`. Ignores the current time, because a short override may have
    /// ended already.
    pub(crate) fn made(subject: &Subject, entry: Entry, before: Option<Entry>) -> Done {
        let previous = |(version, ends, it)| match it {
            Some(it) => Previous::Override(it),
            None => Previous::Unreadable { version, ends },
        };
        let before = before.map(|it| (it.version, it.ends, it.of(subject)));
        let outcome = match entry.of(subject) {
            Some(after) => Self::Set {
                before: before.map(previous),
                after,
            },
            None => Self::Cleared {
                // If `before` is `None`, the version of the previous entry is 0 and its end is unknown.
                before: previous(before.unwrap_or_default()),
                version: entry.version,
            },
        };
        (outcome, Some(entry))
    }
}

/// The reason why a change failed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The call to Redis failed. After a timeout the change may have been made.
    #[error(transparent)]
    Store(#[from] CallError),
    /// The file of overrides cannot be written.
    #[error("the file of overrides cannot be written: {0}")]
    File(#[from] io::Error),
    /// The gateway is stopping.
    #[error("the gateway is stopping")]
    Ended,
}

/// An error after some of the changes were made.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Unfinished {
    /// The outcomes of the changes before the error.
    pub outcomes: Vec<Outcome>,
    /// The error, because of which the remaining changes have no outcome.
    pub error: ChangeError,
}
