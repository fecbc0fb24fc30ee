//! The overrides of a running gateway, and which of them a request meets.

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
    /// Reads the overrides of the gateways behind these ports.
    pub(super) fn ask(ports: &[AdminPort]) -> Result<Self, Failure> {
        let mut overriding = Self::default();
        for port in ports {
            overriding.shown.extend(overrides::if_any(port)?);
        }
        let found = overriding.shown.iter().filter_map(|it| {
            // Names in this list are final: 128 bits keep an address as it is.
            let client = read_name(&it.name, 128).ok()?;
            Some((client, it.effect()?))
        });
        overriding.table.replace(found);
        Ok(overriding)
    }

    /// Returns the overrides in the form that requests meet.
    pub(super) fn table(&self) -> OverrideTable {
        self.table.clone()
    }

    /// Writes the override that holds for the caller, if one does.
    pub(super) fn explain(&self, text: &mut String, overrides: &Overrides, caller: &Caller) {
        let Some((name, action)) = overrides.of(caller) else {
            return;
        };
        let found = self.shown.iter().find(|it| it.name == *name);
        let why = found.map(|it| match &*it.reason {
            "" => format!(", until {}", it.until),
            reason => format!(", until {}: {reason}", it.until),
        });
        let line = format!("override: {action}, for {name}{}", why.unwrap_or_default());
        // A name or a reason may have marks that turn the direction of writing.
        text.extend(line.chars().map(shown));
        text.push('\n');
    }
}
