//! Numbers about the overrides of a gateway, and where they are kept.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::setting::Action;

/// Where overrides are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// In Redis, for all gateways.
    Redis,
    /// In a file, for this gateway.
    File,
    /// In this process: they end with it.
    Process,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Redis => "redis",
            Self::File => "file",
            Self::Process => "process",
        })
    }
}

/// Numbers about overrides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// How many are in force.
    pub in_force: Counts,
    /// How long ago Redis last answered; none: it never did, or there is none.
    pub heard: Option<Duration>,
}

/// How many overrides there are, by what they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    plan: usize,
    exempt: usize,
    block: usize,
}

impl Counts {
    /// Counts one more.
    pub(super) const fn add(&mut self, action: &Action) {
        match action {
            Action::Plan(_) => self.plan += 1,
            Action::Exempt => self.exempt += 1,
            Action::Block => self.block += 1,
        }
    }

    /// All of them.
    pub const fn all(&self) -> usize {
        self.plan + self.exempt + self.block
    }

    /// The number of each action, by its word.
    pub const fn by_action(&self) -> [(&'static str, usize); 3] {
        [
            ("plan", self.plan),
            ("exempt", self.exempt),
            ("block", self.block),
        ]
    }
}
