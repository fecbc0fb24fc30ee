//! The limits that descriptors name. A descriptor is a list of keys with values, in a domain.

use std::collections::HashMap;

/// The domains of the configuration, by name.
#[derive(Clone, Debug, Default)]
pub struct Domains(pub HashMap<Box<str>, Domain>);

/// A domain: the limits of its descriptors.
#[derive(Clone, Debug)]
pub enum Domain {
    /// A list under `domains`. The first entry that matches a descriptor counts.
    Listed(Vec<Entry>),
    /// A file of envoyproxy/ratelimit: a tree of descriptors.
    Tree(Node),
}

/// An element of a list under `domains`.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The keys of a descriptor, each with the values that match. A descriptor must have exactly these keys, in any order, each once.
    pub keys: Vec<(Box<str>, ValuePattern)>,
    /// The limits of the descriptor.
    pub target: Target,
}

/// The values of a key that match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValuePattern {
    /// Any value.
    Any,
    /// This value.
    Exactly(Box<str>),
    /// Any value with this prefix.
    Prefix(Box<str>),
}

/// A node of a tree: the descriptors whose first entries lead to it.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// The nodes of the next entry: its key, its value and the node. An exact value takes precedence over a prefix, and a prefix over any
    /// value.
    pub children: Vec<(Box<str>, ValuePattern, Node)>,
    /// The limits of a descriptor that ends here. `None` if such a descriptor has no limit.
    pub target: Option<Target>,
}

/// The limits of a descriptor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The indices of the limits' rules in [the policy of the decisions listener].
    pub rules: Vec<usize>,
    /// The name by which targets of other descriptors replace this target (`name` of a limit in a file).
    pub name: Option<Box<str>>,
    /// The names of targets that this target replaces: if a call has both, the other target is not charged.
    pub replaces: Vec<Box<str>>,
}

impl Domain {
    /// Returns the limits of a descriptor with these entries. `None` if no limit is configured for the descriptor.
    pub fn target(&self, _entries: &[(&str, &str)]) -> Option<&Target> {
        None
    }
}
