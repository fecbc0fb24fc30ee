//! Decides which callers are refused or exempt, by `deny`, `require`, `allow` and `exempt`.
//!
//! `deny` is checked first, then `require`, `allow` and `exempt`. So if two lists contain a client, the stricter list counts. An `allow`
//! list that has only networks is checked together with `deny`, by the caller's address.

use std::net::IpAddr;
use std::sync::Arc;

use crate::client_list::{ClientList, ListEntry, NetworkFile};
use crate::clients::required::Required;
use crate::{Caller, Credentials};

/// The access lists of the whole gateway, or of one route.
#[derive(Clone, Debug, Default)]
pub struct AccessLists {
    /// Clients whose requests are answered with 403.
    pub deny: ClientList,
    /// The only clients that are allowed. Requests of other clients are answered with 403. `None` allows all clients.
    pub allow: Option<AllowList>,
    /// Clients that limits do not charge. A list of the gateway exempts its clients from all limits, a list of a route only from the limits
    /// that the route names.
    pub exempt: ClientList,
    /// The credentials that a request must show.
    pub require: Option<Required>,
}

/// A list of the only clients that are allowed.
#[derive(Clone, Debug)]
pub struct AllowList {
    list: ClientList,
    itself: ListEntry,
}

impl AllowList {
    /// Makes an `allow` list. `place` is the file, line and column of the list.
    pub fn new(list: ClientList, place: impl Into<Arc<str>>) -> Self {
        let itself = ListEntry::of_allow_list(place.into());
        Self { list, itself }
    }

    fn has(&self, caller: &Caller) -> bool {
        let by_address = caller.origin.and_then(|origin| self.list.address(origin));
        by_address.is_some()
            || caller
                .names()
                .any(|name| name.listed_in(&self.list).is_some())
    }
}

/// The lists of one limit.
#[derive(Clone, Debug, Default)]
pub struct LimitLists {
    /// Clients whose requests are answered with 403 on each route that has the limit.
    pub deny: ClientList,
    /// Clients that the limit does not charge.
    pub exempt: ClientList,
}

/// The access rules of one route: refused clients, and exemptions from its limits.
#[derive(Debug)]
pub struct Access {
    deny: Vec<ClientList>,
    deny_file: Option<NetworkFile>,
    allow: Vec<AllowList>,
    require: Option<Required>,
    exempt: Exempt,
    has_exempt: bool,
}

/// The lists of clients that are exempt from limits of one route.
#[derive(Debug)]
struct Exempt {
    /// Clients that are exempt from all limits.
    all: ClientList,
    /// Clients that are exempt from the limits that the route names.
    route: ClientList,
    /// For each rule of the route, in order: the clients that are exempt from the rule's limit.
    limits: Box<[ClientList]>,
    /// The number of rules that are charged on every route. These rules come before the route's own rules.
    always: usize,
}

/// A caller's two entries in a list: the entry for its address, and the entry for its name.
type Entries<'l> = [Option<&'l ListEntry>; 2];

impl Access {
    /// Joins the lists of the gateway, the route and the route's limits. Returns `None` if no list has an effect. The first `always` limits
    /// are charged on every route, so a route's `exempt` does not apply to them.
    pub fn new(
        gateway: &AccessLists,
        deny_file: Option<&NetworkFile>,
        route: &AccessLists,
        limits: &[&LimitLists],
        always: usize,
    ) -> Option<Arc<Self>> {
        let of_limits = limits.iter().map(|limit| &limit.deny);
        let deny = [&gateway.deny, &route.deny].into_iter().chain(of_limits);
        let exempt = Exempt {
            all: gateway.exempt.clone(),
            route: match limits.len() > always {
                true => route.exempt.clone(),
                false => ClientList::default(),
            },
            limits: limits.iter().map(|limit| limit.exempt.clone()).collect(),
            always,
        };
        let access = Self {
            deny: not_empty(deny),
            deny_file: deny_file.cloned(),
            allow: [&gateway.allow, &route.allow]
                .into_iter()
                .flatten()
                .cloned()
                .collect(),
            require: route.require,
            has_exempt: !limits.is_empty() && exempt.lists().any(|list| !list.is_empty()),
            exempt,
        };
        let says = !access.deny.is_empty()
            || access.deny_file.is_some()
            || !access.allow.is_empty()
            || access.require.is_some()
            || access.has_exempt;
        says.then(|| Arc::new(access))
    }

    /// Returns the entry that denies all clients at an address: an entry of a `deny` list, or the entry for an `allow` list without names
    /// that lacks the address.
    pub fn denies_address(&self, address: IpAddr) -> Option<ListEntry> {
        let listed = self.deny.iter().find_map(|list| list.address(address));
        let in_file = || self.deny_file.as_ref()?.address(address);
        listed.cloned().or_else(in_file).or_else(|| {
            let mut without_names = self.allow.iter().filter(|allow| !allow.list.has_names());
            let lacking = without_names.find(|allow| allow.list.address(address).is_none())?;
            Some(lacking.itself.clone())
        })
    }

    /// Returns the entry of an `allow` list that contains neither the caller's address nor a name that the caller has shown. Checks only
    /// lists with names, because [`Self::denies_address`] checks the other lists.
    fn lacks(&self, caller: &Caller) -> Option<&ListEntry> {
        let mut with_names = self.allow.iter().filter(|allow| allow.list.has_names());
        let lacking = with_names.find(|allow| !allow.has(caller));
        lacking.map(|allow| &allow.itself)
    }

    /// Returns an entry of `deny` for any name that the caller has shown.
    fn denies_name(&self, caller: &Caller) -> Option<&ListEntry> {
        let mut names = caller.names();
        names.find_map(|name| self.deny.iter().find_map(|list| name.listed_in(list)))
    }

    /// Returns the entry that exempts a caller from the rule with this index. Looks up the caller's address and the client's name, but no
    /// other name that the caller has shown.
    pub fn exempts(&self, caller: &Caller, index: usize) -> Option<&ListEntry> {
        let [all, route] = [&self.exempt.all, &self.exempt.route].map(|list| entries(list, caller));
        self.exempt.widest(caller, index, all, route)
    }

    /// Whether an `exempt` list contains this address, so that all clients at the address are exempt from the rule with this index.
    pub fn exempts_address(&self, address: IpAddr, index: usize) -> bool {
        let mut lists = self.exempt.of_rule(index);
        lists.any(|list| list.address(address).is_some())
    }

    /// Whether clients may be exempt by name from the rule with this index.
    pub fn exempts_names(&self, index: usize) -> bool {
        self.exempt.of_rule(index).any(ClientList::has_names)
    }

    /// Whether the verdict on a request depends on the caller's names.
    pub fn needs_names(&self) -> bool {
        let exempt = self.exempt.lists().filter(|_| self.has_exempt);
        let allowed = self.allow.iter().map(|allow| &allow.list);
        let mut by_list = self.deny.iter().chain(exempt).chain(allowed);
        self.require.is_some() || by_list.any(ClientList::has_names)
    }

    /// Whether the verdict on a request under the rule with this index depends on the caller's address.
    pub fn needs_address(&self, index: usize) -> bool {
        let allowed = self.allow.iter().map(|allow| &allow.list);
        let listed = self.deny.iter().chain(allowed);
        let mut lists = listed.chain(self.exempt.of_rule(index));
        self.deny_file.is_some() || lists.any(ClientList::has_networks)
    }

    /// Returns the verdict on a caller whose address is not denied. `None` if no list denies or exempts the caller. If the caller lacks the
    /// credentials of `require`, marks the caller as refused, so that it gets 401. Calls `is_preflight` only before a refusal, because the
    /// call costs time.
    pub fn judge(
        &self,
        caller: &mut Caller,
        is_preflight: impl Fn() -> bool,
    ) -> Option<Box<AccessVerdict>> {
        if let Some(entry) = self.denies_name(caller) {
            return Some(Box::new(AccessVerdict::Denied(entry.clone())));
        }
        if let Some(required) = self.require
            && caller.refused.is_none()
            && !required.is_shown_by(caller)
            && !is_preflight()
        {
            caller.refuse(Credentials::Missing(required));
        }
        // A caller whose credentials are refused gets 401, not 403. With valid credentials, the caller may have a name that the `allow`
        // list contains.
        if caller.refused.is_none()
            && let Some(entry) = self.lacks(caller)
            && !is_preflight()
        {
            return Some(Box::new(AccessVerdict::Denied(entry.clone())));
        }
        if !self.has_exempt {
            return None;
        }
        let mut exempt = None;
        // The lists `all` and `route` are the same for all rules, so they are searched once.
        let [all, route] = [&self.exempt.all, &self.exempt.route].map(|list| entries(list, caller));
        for index in 0..self.exempt.limits.len().min(LAST) {
            if let Some(entry) = self.exempt.widest(caller, index, all, route) {
                let (rules, _) = exempt.get_or_insert_with(|| (0_u64, entry.clone()));
                *rules |= 1 << index;
            }
        }
        exempt.map(|(rules, entry)| Box::new(AccessVerdict::Exempt { rules, entry }))
    }
}

impl Exempt {
    fn lists(&self) -> impl Iterator<Item = &ClientList> {
        [&self.all, &self.route].into_iter().chain(&self.limits)
    }

    /// Returns the lists that exempt from the rule with this index. The list that exempts from the most limits comes first.
    fn of_rule(&self, index: usize) -> impl Iterator<Item = &ClientList> {
        let limit = self.limits.get(index);
        let route = limit.filter(|_| index >= self.always).map(|_| &self.route);
        let all = limit.map(|_| &self.all);
        [all, route, limit].into_iter().flatten()
    }

    /// Returns the entry that exempts a caller from the rule with this index. An entry for the address takes precedence over an entry for
    /// the name. If several lists contain the address or the name, a list for more limits takes precedence over a list for fewer limits.
    fn widest<'l>(
        &'l self,
        caller: &Caller,
        index: usize,
        all: Entries<'l>,
        route: Entries<'l>,
    ) -> Option<&'l ListEntry> {
        let limit = entries(self.limits.get(index)?, caller);
        let route = if index < self.always {
            [None; 2]
        } else {
            route
        };
        let by = |way: usize| all[way].or(route[way]).or(limit[way]);
        by(0).or_else(|| by(1))
    }
}

/// Returns the caller's entries in a list, by its address and by the client's name.
fn entries<'l>(list: &'l ClientList, caller: &Caller) -> Entries<'l> {
    if list.is_empty() {
        return [None; 2];
    }
    let by_address = caller.origin.and_then(|origin| list.address(origin));
    [by_address, caller.client.listed_in(list)]
}

/// The bit of [`AccessVerdict::Exempt`] for all rules that have no bit of their own.
const LAST: usize = 63;

/// The verdict of the access lists on a request.
#[derive(Clone, Debug)]
pub enum AccessVerdict {
    /// The request is answered with 403, because of this entry.
    Denied(ListEntry),
    /// The request is exempt from at least one limit.
    Exempt {
        /// One bit for each of the first 63 rules, set if the rule does not charge the request. A route has fewer rules. The last bit is
        /// for all other rules. [`Access::exempts`] has the exemption of each rule.
        rules: u64,
        /// The entry that exempts from the first of these rules.
        entry: ListEntry,
    },
}

impl AccessVerdict {
    /// Returns the entry that denies the request. `None` if the request is only exempt from limits.
    pub const fn denied_by(&self) -> Option<&ListEntry> {
        match self {
            Self::Denied(entry) => Some(entry),
            Self::Exempt { .. } => None,
        }
    }

    /// Returns the entry that exempts the request from a limit. `None` if the request is denied.
    pub const fn exempt_by(&self) -> Option<&ListEntry> {
        match self {
            Self::Denied(_) => None,
            Self::Exempt { entry, .. } => Some(entry),
        }
    }

    /// Whether the request is not charged to the rule with this index.
    pub const fn exempts(&self, index: usize) -> bool {
        match self {
            Self::Denied(_) => false,
            Self::Exempt { rules, .. } => {
                *rules & (1 << (if index < LAST { index } else { LAST })) != 0
            }
        }
    }
}

/// Returns the lists that have entries.
fn not_empty<'l>(lists: impl Iterator<Item = &'l ClientList>) -> Vec<ClientList> {
    lists.filter(|list| !list.is_empty()).cloned().collect()
}

#[cfg(test)]
mod tests;
