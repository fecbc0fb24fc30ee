//! A change that an operator requests, and its outcome.

use std::io;
use std::time::Duration;

use tidegate_core::Micros;
use tidegate_identity::ListedClient;
use tidegate_redis::CallError;

use crate::setting::{Clearing, Override, Setting};
use crate::table::{Entry, cleared};

/// The override that must be in force for a change to be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expected {
    /// Any, or none.
    #[default]
    Any,
    /// None.
    Nothing,
    /// An override of this version.
    Version(u64),
}

/// When an override ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Never.
    Never,
    /// This time after the change.
    After(Duration),
    /// At a time of the store's clock, in us since the epoch.
    At(Micros),
}

/// A change that an operator requests.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The client or network of the override.
    pub subject: ListedClient,
    /// The override that must be in force.
    pub expected: Expected,
    /// The end of the override; without effect if it is cleared.
    pub ends: Ends,
    /// The effect of the change.
    pub intent: Intent,
}

/// The effect of a change.
#[derive(Clone, Debug)]
pub enum Intent {
    /// It sets this.
    Set(Setting),
    /// It clears the override.
    Clear(Clearing),
}

impl Wish {
    /// Makes the wish that a name has no override.
    pub const fn clear(subject: ListedClient, expected: Expected, clearing: Clearing) -> Self {
        Self {
            subject,
            expected,
            ends: Ends::Never,
            intent: Intent::Clear(clearing),
        }
    }

    /// Returns the content of the entry that it writes.
    pub(crate) fn content(&self) -> String {
        match &self.intent {
            // Strings always become JSON.
            Intent::Set(setting) => serde_json::to_string(setting).unwrap_or_default(),
            Intent::Clear(clearing) => cleared(clearing),
        }
    }
}

/// The outcome of a wish, and the entry that was made.
pub(crate) type Done = (Outcome, Option<Entry>);

/// The outcome of a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in force on this gateway, and within 2 s on all others.
    Set {
        /// The override that was in force.
        before: Option<Previous>,
        /// The override that is in force, unless it has ended since.
        after: Override,
    },
    /// It is not in force any more.
    Cleared {
        /// The override that was in force.
        before: Previous,
        /// The version of this change.
        version: u64,
    },
    /// No override was in force to clear.
    Nothing,
    /// This override is in force, and not the expected one.
    Conflict(Option<Override>),
    /// There are [`MAX_OVERRIDES`](crate::MAX_OVERRIDES) already.
    Full,
    /// It would have ended already.
    Over,
}

/// The override that a change replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Previous {
    /// The override.
    Override(Override),
    /// An override in a form that this version of the program cannot read.
    Unreadable {
        /// Its version.
        version: u64,
        /// When it would have ended, in us since the epoch; none: never.
        ends: Option<Micros>,
    },
}

impl Outcome {
    /// Returns the outcome of an entry that was made in place of another, at that time: a short override may have ended since.
    pub(crate) fn made(subject: &ListedClient, entry: Entry, before: Option<Entry>) -> Done {
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
                // If no version can be read, the stored version is not a number.
                before: previous(before.unwrap_or_default()),
                version: entry.version,
            },
        };
        (outcome, Some(entry))
    }
}

/// The reason why no change was made.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// Redis did not answer as it should. If it did not answer in time, the change may have been made before.
    #[error(transparent)]
    Store(#[from] CallError),
    /// The file of overrides cannot be written.
    #[error("the file of overrides cannot be written: {0}")]
    File(#[from] io::Error),
    /// The gateway is stopping.
    #[error("the gateway is stopping")]
    Ended,
}

/// Changes that do not all have an outcome.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Unfinished {
    /// The outcomes of the first.
    pub outcomes: Vec<Outcome>,
    /// The reason why the others have none.
    pub error: ChangeError,
}
