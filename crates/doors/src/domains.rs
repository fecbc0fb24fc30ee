//! The limits that descriptors name. A descriptor is a list of keys with values, in a domain.
//!
//! - [`DomainList`]: a list of matches, in any order of keys
//! - [`Node`]: a tree of descriptors, as a file of envoyproxy/ratelimit has it

mod list;
mod pattern;
mod tree;

pub use list::{DomainList, Entry};
pub use pattern::ValuePattern;
pub use tree::Node;

use std::collections::HashMap;

/// The domains of the configuration, by name.
#[derive(Clone, Debug, Default)]
pub struct Domains(HashMap<Box<str>, Domain>);

impl Domains {
    /// Returns the domain with this name.
    pub fn of(&self, name: &str) -> Option<&Domain> {
        self.0.get(name)
    }

    /// Adds a domain. Returns whether no domain has had this name before.
    pub fn add(&mut self, name: &str, domain: Domain) -> bool {
        self.0.insert(name.into(), domain).is_none()
    }

    /// Returns the names of all domains, in no particular order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|name| &**name)
    }
}

/// A domain: the limits of its descriptors.
#[derive(Clone, Debug)]
pub enum Domain {
    /// A list under `domains`. The first entry that matches a descriptor counts.
    List(DomainList),
    /// A file of envoyproxy/ratelimit: a tree of descriptors.
    Tree(Node),
}

impl Domain {
    /// Returns the limits of a descriptor with these entries. `None` if no limit is configured for the descriptor.
    pub fn target(&self, entries: &[(&str, &str)]) -> Option<&Target> {
        match self {
            Self::List(list) => list.target(entries),
            Self::Tree(tree) => tree.target(entries),
        }
    }
}

/// The limits of a descriptor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The indices of the limits' rules in the policy of the decisions listener. An empty list admits every call, without a charge.
    pub rules: Vec<usize>,
    /// Whether every call is refused, without a charge: `requests_per_unit: 0` in a file of envoyproxy/ratelimit. Then `rules` is empty.
    pub refuses: bool,
    /// The name by which targets of other descriptors replace this target (`name` of a limit in a file).
    pub name: Option<Box<str>>,
    /// The names of targets that this target replaces: if a call has both, the other target is not charged.
    pub replaces: Vec<Box<str>>,
}

#[cfg(test)]
mod tests;
