//! Explains which override of a running gateway applies to a request.

use crate::remote::Failure;
use crate::remote::overrides;
use crate::remote::port::AdminPort;
use tidegate_identity::Caller;
use tidegate_overrides::api::Shown;
use tidegate_overrides::read_name;
use tidegate_status::shown;
use tidegate_tower::{OverrideTable, Overrides};

/// The overrides of a running gateway.
#[derive(Debug, Default)]
pub(crate) struct Overriding {
    table: OverrideTable,
    shown: Vec<Shown>,
}

impl Overriding {
    /// Reads the overrides of the gateways at these admin ports.
    pub(super) fn ask(ports: &[AdminPort]) -> Result<Self, Failure> {
        let mut overriding = Self::default();
        for port in ports {
            overriding.shown.extend(overrides::if_any(port)?);
        }
        let entries = overriding.shown.iter().filter_map(|it| {
            // Names in this list are already normalized, so the prefix of 128 bits leaves addresses unchanged.
            let client = read_name(&it.name, 128).ok()?;
            Some((client, it.effect()?))
        });
        overriding.table.replace(entries);
        Ok(overriding)
    }

    /// Returns the table in which the override for the explained request is looked up.
    pub(super) fn table(&self) -> OverrideTable {
        self.table.clone()
    }

    /// Writes the override that applies to the caller, if there is one.
    pub(super) fn explain(&self, text: &mut String, overrides: &Overrides, caller: &Caller) {
        let Some((name, action)) = overrides.of(caller) else {
            return;
        };
        let entry = self.shown.iter().find(|it| it.name == *name);
        let why = entry.map(|it| match &*it.reason {
            "" => format!(", until {}", it.until),
            reason => format!(", until {}: {reason}", it.until),
        });
        let line = format!("override: {action}, for {name}{}", why.unwrap_or_default());
        // Escaped, because a name or a reason may contain characters that reverse the direction of text.
        text.extend(line.chars().map(shown));
        text.push('\n');
    }
}
