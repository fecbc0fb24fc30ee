//! Trees of descriptors. A tree is searched as envoyproxy/ratelimit does it.

use std::collections::HashMap;

use crate::domains::{Target, ValuePattern};

/// A node of a tree: the descriptors whose first entries lead to it.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// The limits of a descriptor that ends here. `None` if such a descriptor has no limit.
    target: Option<Target>,
    /// The nodes of the next entry, by its key.
    of_key: HashMap<Box<str>, Values>,
}

/// The nodes of the next entry, for one key of the entry.
#[derive(Clone, Debug, Default)]
struct Values {
    exact: HashMap<Box<str>, Node>,
    /// The nodes of values with `*`, in the order of the file. The first pattern that matches counts.
    patterns: Vec<(ValuePattern, Node)>,
    /// The node of all other values.
    others: Option<Box<Node>>,
}

impl Node {
    /// Makes a node with these limits, for descriptors that end here.
    pub fn new(target: Option<Target>) -> Self {
        Self {
            target,
            of_key: HashMap::new(),
        }
    }

    /// Adds the node of an entry with this key. A `*` in `value` stands for any characters. The node is for all other values if `value` is
    /// `None`. Returns whether the tree had no such node before.
    pub fn add(&mut self, key: &str, value: Option<&str>, node: Self) -> bool {
        let values = self.of_key.entry(key.into()).or_default();
        let Some(value) = value else {
            return values.others.replace(node.into()).is_none();
        };
        if !value.contains('*') {
            return values.exact.insert(value.into(), node).is_none();
        }
        let pattern = ValuePattern::new(value);
        let is_new = values.patterns.iter().all(|(other, _)| *other != pattern);
        values.patterns.push((pattern, node));
        is_new
    }

    /// Returns the limits of a descriptor with these entries. An exact value takes precedence over a value with `*`, and a value with `*`
    /// over a key alone. The search never returns to a node to try another way.
    pub(super) fn target(&self, entries: &[(&str, &str)]) -> Option<&Target> {
        let mut entries = entries.iter();
        entries
            .try_fold(self, |node, (key, value)| node.next(key, value))?
            .target
            .as_ref()
    }

    fn next(&self, key: &str, value: &str) -> Option<&Self> {
        let values = self.of_key.get(key)?;
        let by_pattern = || {
            let mut patterns = values.patterns.iter();
            let (_, node) = patterns.find(|(pattern, _)| pattern.matches(value))?;
            Some(node)
        };
        let exact = values.exact.get(value).or_else(by_pattern);
        exact.or(values.others.as_deref())
    }
}
