//! Explains which override of a running gateway applies to a request.

use std::collections::BTreeMap;

use crate::remote::Failure;
use crate::remote::overrides;
use crate::remote::port::AdminPort;
use tidegate_config::Settings;
use tidegate_identity::Caller;
use tidegate_overrides::api::Shown;
use tidegate_overrides::{Subject, read_name};
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
            match read_name(&it.name, 128).ok()? {
                Subject::Client(client) => Some((client, it.effect()?)),
                Subject::Limit(_) => None,
            }
        });
        overriding.table.replace(entries);
        Ok(overriding)
    }

    /// Gives limits the numbers of their overrides. Numbers that the configuration cannot use have no effect on gateways either.
    pub(super) fn set_numbers(&mut self, settings: &mut Settings) {
        let numbers_of = |it: &Shown| {
            let name = it.name.strip_prefix("limit:")?;
            let text = it.limits.as_ref()?.get(name)?;
            Some((name.to_owned(), text.clone()))
        };
        let numbers: BTreeMap<_, _> = self.shown.iter().filter_map(numbers_of).collect();
        let texts = numbers.iter().map(|(name, text)| (&**name, &**text));
        let refused = settings.set_numbers(texts);
        let has_effect = |limit: &str| {
            let is_refused = refused.iter().any(|(name, _)| *name == limit);
            numbers.contains_key(limit) && !is_refused
        };
        self.shown
            .retain(|it| it.name.strip_prefix("limit:").is_none_or(has_effect));
    }

    /// Writes the override that sets the numbers of a limit, if there is one.
    pub(super) fn explain_limit(&self, text: &mut String, limit: &str) {
        let name = format!("limit:{limit}");
        if let Some(entry) = self.shown.iter().find(|it| it.name == name) {
            let line = format!("  set:    by the override {name}{}", why(entry));
            text.extend(line.chars().map(shown));
            text.push('\n');
        }
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
        let why = entry.map(why);
        let line = format!("override: {action}, for {name}{}", why.unwrap_or_default());
        // Escaped, because a name or a reason may contain characters that reverse the direction of text.
        text.extend(line.chars().map(shown));
        text.push('\n');
    }
}

/// Returns the end and the reason of an override.
fn why(it: &Shown) -> String {
    match &*it.reason {
        "" => format!(", until {}", it.until),
        reason => format!(", until {}: {reason}", it.until),
    }
}
