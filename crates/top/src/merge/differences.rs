//! Differences between gateways whose documents are merged. Differences are usual while a fleet is updated, but they make some sums
//! meaningless.

use std::collections::BTreeSet;

use tidegate_status::document::{Health, State, Status};

/// The values in which gateways should agree.
#[derive(Debug, Default)]
pub(super) struct Differences {
    versions: BTreeSet<String>,
    configurations: BTreeSet<String>,
    stores: BTreeSet<String>,
}

impl Differences {
    pub(super) fn add(&mut self, one: &Status) {
        self.versions.insert(one.gateway.version.clone());
        self.configurations
            .insert(one.gateway.configuration.clone());
        self.stores.insert(one.store.kind.clone());
    }

    /// Adds a reason to `health` for each difference, such as two versions of tidegate.
    pub(super) fn say(self, health: &mut Health) {
        for (what, values) in [
            ("versions of tidegate", self.versions),
            ("configurations", self.configurations),
            ("stores", self.stores),
        ] {
            if values.len() > 1 {
                let all = Vec::from_iter(values).join(", ");
                let text = format!("The gateways have different {what}: {all}.");
                health.add(State::Warning, text);
            }
        }
    }
}
