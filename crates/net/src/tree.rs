//! An index of values by patterns of names. A lookup finds the patterns that match a sequence of names. The cost of a lookup depends on the
//! length of the sequence, not on the number of patterns.
//!
//! A pattern is a sequence of names, in which `None` matches any single name. A pattern may end with a wildcard that matches any number of
//! further names, even none.

use std::collections::HashMap;

use foldhash::fast::FixedState;

/// Values by patterns of names.
#[derive(Debug)]
pub struct Tree<T>(Vec<Node<T>>);

/// The patterns that begin with the same names.
#[derive(Debug)]
struct Node<T> {
    // Only the configuration adds names, so clients cannot cause collisions, and the hash needs no random key.
    literal: HashMap<Box<str>, usize, FixedState>,
    any: Option<usize>,
    /// The value of the pattern that ends at this node.
    ends: Option<T>,
    /// The value of the pattern that ends at this node with a wildcard for further names.
    rest: Option<T>,
}

const ROOT: usize = 0;

impl<T: Default> Tree<T> {
    /// Returns the value of a pattern. Adds a default value if the pattern is new.
    pub fn entry<'n>(
        &mut self,
        names: impl Iterator<Item = Option<&'n str>>,
        rest: bool,
    ) -> &mut T {
        let mut at = ROOT;
        for name in names {
            let next = self.0.len();
            let node = &mut self.0[at];
            at = match name {
                Some(name) => *node.literal.entry(name.into()).or_insert(next),
                None => *node.any.get_or_insert(next),
            };
            if at == next {
                self.0.push(Node::default());
            }
        }
        let node = &mut self.0[at];
        let value = if rest { &mut node.rest } else { &mut node.ends };
        value.get_or_insert_default()
    }
}

impl<T> Tree<T> {
    /// Calls `visit` with the value of every matching pattern, in no defined order. A name of `None` is unknown, and matches only the
    /// `None` of a pattern.
    pub fn matching<'t, N: AsRef<str>>(
        &'t self,
        names: impl Iterator<Item = Option<N>> + Clone,
        mut visit: impl FnMut(&'t T),
    ) {
        // If a literal and `any` both match a name, the branch of `any` is visited later.
        let mut left = Vec::new();
        let mut next = Some((ROOT, names));
        while let Some((at, mut names)) = next {
            let node = &self.0[at];
            node.rest.iter().for_each(&mut visit);
            next = match names.next() {
                Some(name) => {
                    let literal = name.and_then(|name| node.literal.get(name.as_ref()));
                    if let (Some(_), Some(any)) = (literal, node.any) {
                        left.push((any, names.clone()));
                    }
                    let below = literal.copied().or(node.any);
                    below.map(|at| (at, names))
                }
                None => {
                    node.ends.iter().for_each(&mut visit);
                    None
                }
            };
            next = next.or_else(|| left.pop());
        }
    }
}

impl<T> Default for Tree<T> {
    fn default() -> Self {
        Self(vec![Node::default()])
    }
}

impl<T> Default for Node<T> {
    fn default() -> Self {
        Self {
            literal: HashMap::default(),
            any: None,
            ends: None,
            rest: None,
        }
    }
}
