//! Numbers about the overrides of a gateway, and the place where overrides are kept.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_tower::OverrideAction;

/// The place where overrides are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// In Redis, for all gateways.
    Redis,
    /// In a file, for this gateway.
    File,
    /// In this process, so the overrides end with the process.
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

/// The number of overrides in force, by action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([usize; 4]);

impl Counts {
    pub(crate) const fn add(&mut self, action: &OverrideAction) {
        self.0[match action {
            OverrideAction::Plan(_) => 0,
            OverrideAction::Exempt => 1,
            OverrideAction::Block => 2,
            OverrideAction::Set(_) => 3,
        }] += 1;
    }

    /// Returns the number of all overrides.
    pub fn all(&self) -> usize {
        self.0.iter().sum()
    }

    /// Returns the number of overrides for each action.
    pub const fn by_action(&self) -> [(&'static str, usize); 4] {
        let [plan, exempt, block, set] = self.0;
        [
            ("plan", plan),
            ("exempt", exempt),
            ("block", block),
            ("set", set),
        ]
    }
}

/// Numbers about overrides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// The number of overrides in force.
    pub in_force: Counts,
    /// The time since Redis's last answer. `None` before the first answer, and without Redis.
    pub heard: Option<Duration>,
}
