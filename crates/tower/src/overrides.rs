//! Overrides as requests use them: blocks, exemptions, other plans and other numbers, which operators set at run time.
//!
//! Each change makes a new table. The time of a lookup does not depend on the number of overrides. A lookup takes one step for a name, and
//! one step for each prefix length in the table. Without overrides, a request reads one flag.
//!
//! A block applies to the caller's address and to any name that the caller has shown. An exemption, a plan or numbers apply to the client's
//! own name. If the name has none of these, the override of the smallest network that contains the address applies.

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, Guard};

use crate::numbers::{NumberReader, SetNumbers};
use tidegate_identity::{
    Caller, Client, ClientPlan, ClientPlans, ClientTable, ListEntry, ListedClient,
};

/// The effect of an override on its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverrideAction {
    /// The client has the plan with this name, if the configuration defines the plan.
    Plan(Arc<str>),
    /// The client has other numbers at the limits that [`SetNumbers`] names.
    Set(Arc<SetNumbers>),
    /// No limit charges the client.
    Exempt,
    /// Each request of the client is answered with 403.
    Block,
}

impl fmt::Display for OverrideAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(name) => write!(f, "plan {name}"),
            Self::Set(numbers) => write!(f, "set {numbers}"),
            Self::Exempt => f.write_str("exempt"),
            Self::Block => f.write_str("block"),
        }
    }
}

/// All overrides in force. Clones share the table.
#[derive(Clone, Debug, Default)]
pub struct OverrideTable(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    has_any: AtomicBool,
    table: ArcSwap<Table>,
}

/// The overrides in force, with the plans and limits of the configuration that overrides can name.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The overrides in force.
    pub table: OverrideTable,
    /// The plans of the configuration.
    pub plans: ClientPlans,
    /// Reads numbers for the limits of the configuration.
    pub numbers: NumberReader,
}

impl Overrides {
    /// Returns the name and the action of the override that applies to a caller. If `caller` was made from a client's name, overrides of
    /// networks apply only if this name is an address.
    pub fn of(&self, caller: &Caller) -> Option<(Arc<str>, OverrideAction)> {
        self.apply(&mut caller.clone())
    }

    /// Gives the caller the plan or the numbers of its override. Returns the override's name and action.
    pub fn apply(&self, caller: &mut Caller) -> Option<(Arc<str>, OverrideAction)> {
        let table = self.table.load()?;
        let by_address = || table.blocks_address(caller.origin?);
        if let Some(entry) = table.blocks_name(caller).or_else(by_address) {
            return Some((entry.text, OverrideAction::Block));
        }
        let (action, entry) = table.grant(caller)?;
        if *action != OverrideAction::Exempt {
            caller.plan = Some(self.plan(action, caller.plan.as_ref())?);
        }
        Some((entry.text, action.clone()))
    }

    /// Returns the plan of a client under this action. `None` if the configuration has neither the plan nor any of the limits. Numbers of
    /// an override replace the numbers of the plan `before` limit by limit.
    pub(crate) fn plan(
        &self,
        action: &OverrideAction,
        before: Option<&ClientPlan>,
    ) -> Option<ClientPlan> {
        match action {
            OverrideAction::Plan(name) => self.plans.called(name),
            OverrideAction::Set(numbers) => {
                let limits = numbers.limits(&self.numbers);
                (!limits.0.is_empty()).then(|| ClientPlan::over(limits, before.cloned()))
            }
            OverrideAction::Exempt | OverrideAction::Block => None,
        }
    }
}

/// All overrides, by their effect.
#[derive(Debug, Default)]
pub(crate) struct Table {
    blocks: ClientTable<()>,
    // The actions of all overrides except blocks.
    grants: ClientTable<OverrideAction>,
    exempts_names: bool,
    // The limits whose numbers an override changes.
    set_limits: HashSet<Box<str>>,
}

impl OverrideTable {
    /// Replaces all overrides in force by `overrides`.
    pub fn replace(&self, overrides: impl Iterator<Item = (ListedClient, OverrideAction)>) {
        let mut table = Table::default();
        let mut has_any = false;
        for (client, action) in overrides {
            has_any = true;
            match &action {
                OverrideAction::Block => {
                    table.blocks.insert(client, ());
                    continue;
                }
                OverrideAction::Plan(_) => {}
                OverrideAction::Set(numbers) => {
                    for limit in numbers.texts().keys() {
                        if !table.set_limits.contains(&**limit) {
                            table.set_limits.insert(limit.as_str().into());
                        }
                    }
                }
                OverrideAction::Exempt => {
                    table.exempts_names |= !matches!(client, ListedClient::Network(_));
                }
            }
            table.grants.insert(client, action);
        }
        self.0.table.store(Arc::new(table));
        self.0.has_any.store(has_any, Ordering::Release);
    }

    /// Returns the overrides in force, if there are any.
    pub(crate) fn load(&self) -> Option<Guard<Arc<Table>>> {
        let has_any = self.0.has_any.load(Ordering::Acquire);
        has_any.then(|| self.0.table.load())
    }

    /// Whether an override blocks all clients at an address. Calls `address` only if there are overrides.
    pub fn blocks(&self, address: impl FnOnce() -> IpAddr) -> bool {
        let table = self.load();
        table.is_some_and(|table| table.blocks_address(address()).is_some())
    }
}

impl Table {
    /// Returns the override that blocks all clients at an address.
    pub(crate) fn blocks_address(&self, address: IpAddr) -> Option<ListEntry> {
        let (network, ()) = self.blocks.at(address)?;
        Some(entry(&ListedClient::Network(network)))
    }

    /// Returns the override that blocks any of the names that the caller has shown.
    pub(crate) fn blocks_name(&self, caller: &Caller) -> Option<ListEntry> {
        if !self.blocks.has_names() {
            return None;
        }
        let blocked = caller
            .names()
            .find(|name| named(&self.blocks, name).is_some())?;
        Some(entry(blocked))
    }

    /// Returns the action and the entry of the override for the client's own name. If no override has this name, returns the action and the
    /// entry of the override for the smallest network that contains the caller's address.
    pub(crate) fn grant(&self, caller: &Caller) -> Option<(&OverrideAction, ListEntry)> {
        if let Some(action) = named(&self.grants, &caller.client) {
            return Some((action, entry(&caller.client)));
        }
        let (network, action) = self.grants.at(caller.origin?)?;
        Some((action, entry(&ListedClient::Network(network))))
    }

    /// Whether an override exempts a client by name.
    pub(crate) const fn exempts_names(&self) -> bool {
        self.exempts_names
    }

    /// Returns whether an override changes the numbers of the limit with this name.
    pub(crate) fn sets(&self, limit: &str) -> bool {
        self.set_limits.contains(limit)
    }

    /// Whether an override exempts all clients at this address.
    pub(crate) fn exempts_address(&self, address: IpAddr) -> bool {
        let grant = self.grants.at(address);
        grant.is_some_and(|(_, action)| *action == OverrideAction::Exempt)
    }
}

/// Returns the value for a client's name. `None` for a client that is named by its address.
fn named<'t, T>(table: &'t ClientTable<T>, client: &Client) -> Option<&'t T> {
    match client {
        Client::UnlistedKey(_) if table.has_api_keys() => {
            // An override names an unlisted key by the text that logs and the status page show for the key.
            let text = client.to_string();
            table.api_key(text.strip_prefix("api_key:")?)
        }
        other => other.value_in(table),
    }
}

/// Returns the entry of an override for this client, with the name that logs use.
fn entry(client: &impl fmt::Display) -> ListEntry {
    ListEntry::of_override(client.to_string().into())
}

#[cfg(test)]
mod tests;
