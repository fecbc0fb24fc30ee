//! Overrides, as requests see them: who is blocked, who is exempt, and who has another plan, until an operator says otherwise.
//!
//! A table is made when something changes. A request finds its override in as many steps however many there are: one look for a name,
//! and one for each length of network that is there. Without overrides a request reads one flag.
//!
//! A block holds for any name that the caller has shown, and for the address. An exemption and a plan hold for the client's own name;
//! without one, for the longest network that holds the address.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, Guard};

use crate::client_list::ListEntry;
use crate::client_table::{ClientTable, ListedClient};
use crate::{Caller, Client, ClientPlans};

/// What an override makes of its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverrideAction {
    /// The client has the plan of this name, if there is one.
    Plan(Arc<str>),
    /// The client is charged to nothing.
    Exempt,
    /// The client gets 403.
    Block,
}

impl fmt::Display for OverrideAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(name) => write!(f, "plan {name}"),
            Self::Exempt => f.write_str("exempt"),
            Self::Block => f.write_str("block"),
        }
    }
}

/// All overrides that are in force. Clones see the same.
#[derive(Clone, Debug, Default)]
pub struct OverrideTable(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    has_any: AtomicBool,
    table: ArcSwap<Table>,
}

/// What overrides say, and the plans that they may name.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Those that are in force.
    pub table: OverrideTable,
    /// The plans of the configuration.
    pub plans: ClientPlans,
}

/// The overrides that one request meets.
#[derive(Clone, Copy)]
pub(crate) struct InForce<'a> {
    pub(crate) table: &'a Table,
    pub(crate) plans: &'a ClientPlans,
}

impl Overrides {
    /// The override that holds for a caller, by its name, and what it does. A caller that is known by name alone has no address, unless
    /// that is its name.
    pub fn of(&self, caller: &Caller) -> Option<(Arc<str>, OverrideAction)> {
        let table = self.table.load()?;
        let by_address = || table.blocks_address(caller.origin?);
        if let Some(entry) = table.blocks_name(caller).or_else(by_address) {
            return Some((entry.text, OverrideAction::Block));
        }
        let (grant, entry) = table.grant(caller)?;
        match grant {
            Grant::Exempt => Some((entry.text, OverrideAction::Exempt)),
            Grant::Plan(name) => {
                // One that the configuration does not have changes nothing.
                self.plans.called(name)?;
                Some((entry.text, OverrideAction::Plan(name.clone())))
            }
        }
    }

    /// As [`of`](Self::of), and gives the caller the plan that it names.
    pub fn apply(&self, caller: &mut Caller) -> Option<(Arc<str>, OverrideAction)> {
        let found = self.of(caller)?;
        if let OverrideAction::Plan(name) = &found.1 {
            caller.plan = self.plans.called(name);
        }
        Some(found)
    }

    /// These with the plans that they may name.
    pub(crate) const fn with<'a>(&'a self, table: &'a Table) -> InForce<'a> {
        InForce {
            table,
            plans: &self.plans,
        }
    }
}

/// Overrides by what they make of a client.
#[derive(Debug, Default)]
pub(crate) struct Table {
    blocks: ClientTable<()>,
    grants: ClientTable<Grant>,
    exempts_names: bool,
}

/// What a client has that is not blocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    Plan(Arc<str>),
    Exempt,
}

impl OverrideTable {
    /// Puts these overrides in the place of all that were there.
    pub fn replace(&self, overrides: impl Iterator<Item = (ListedClient, OverrideAction)>) {
        let mut table = Table::default();
        let mut has_any = false;
        for (client, action) in overrides {
            has_any = true;
            match action {
                OverrideAction::Block => table.blocks.insert(client, ()),
                OverrideAction::Plan(name) => table.grants.insert(client, Grant::Plan(name)),
                OverrideAction::Exempt => {
                    table.exempts_names |= !matches!(client, ListedClient::Network(_));
                    table.grants.insert(client, Grant::Exempt);
                }
            }
        }
        self.0.table.store(Arc::new(table));
        self.0.has_any.store(has_any, Ordering::Release);
    }

    /// Those that are in force now, if there are any.
    pub(crate) fn load(&self) -> Option<Guard<Arc<Table>>> {
        let has_any = self.0.has_any.load(Ordering::Acquire);
        has_any.then(|| self.0.table.load())
    }

    /// Whether an override blocks an address, whoever calls from there. Without overrides nobody has to find the address.
    pub fn blocks(&self, address: impl FnOnce() -> IpAddr) -> bool {
        let table = self.load();
        table.is_some_and(|table| table.blocks_address(address()).is_some())
    }
}

impl Table {
    /// The override that blocks an address, whoever calls from there.
    pub(crate) fn blocks_address(&self, address: IpAddr) -> Option<ListEntry> {
        let (network, ()) = self.blocks.at(address)?;
        Some(entry(&ListedClient::Network(network)))
    }

    /// The override that blocks a caller by name: by any that the caller has shown to have.
    pub(crate) fn blocks_name(&self, caller: &Caller) -> Option<ListEntry> {
        if !self.blocks.has_names() {
            return None;
        }
        let blocked = caller
            .names()
            .find(|name| named(&self.blocks, name).is_some())?;
        Some(entry(blocked))
    }

    /// What a caller has by its own name, or else by its address; and the override that says so.
    pub(crate) fn grant(&self, caller: &Caller) -> Option<(&Grant, ListEntry)> {
        if let Some(grant) = named(&self.grants, &caller.client) {
            return Some((grant, entry(&caller.client)));
        }
        let (network, grant) = self.grants.at(caller.origin?)?;
        Some((grant, entry(&ListedClient::Network(network))))
    }

    /// Whether it takes a caller's name to know who is exempt.
    pub(crate) const fn exempts_names(&self) -> bool {
        self.exempts_names
    }

    /// Whether an address alone is exempt.
    pub(crate) fn exempts_address(&self, address: IpAddr) -> bool {
        let found = self.grants.at(address);
        found.is_some_and(|(_, grant)| *grant == Grant::Exempt)
    }
}

/// The value of a client's name. Addresses have none.
fn named<'t, T>(table: &'t ClientTable<T>, client: &Client) -> Option<&'t T> {
    match client {
        Client::UnlistedKey(_) if table.has_api_keys() => {
            // As logs and the status page name it.
            let text = client.to_string();
            table.api_key(text.strip_prefix("api_key:")?)
        }
        other => other.value_in(table),
    }
}

/// An override as logs name it.
fn entry(client: &impl fmt::Display) -> ListEntry {
    ListEntry::of_override(client.to_string().into())
}

#[cfg(test)]
mod tests;
