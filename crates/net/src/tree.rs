//! Values by patterns of names: those that match a sequence of names are found at the cost of that sequence, however
//! many there are.
//!
//! A pattern is a sequence too, in which `None` stands for any one name, and may have any rest, none included.

use std::collections::HashMap;

use foldhash::fast::FixedState;

/// Values by patterns of names.
#[derive(Debug)]
pub struct Tree<T>(Vec<Node<T>>);

/// What begins with the same names.
#[derive(Debug)]
struct Node<T> {
    // Requests look names up and never add one, so nobody gains by knowing how they are hashed.
    literal: HashMap<Box<str>, usize, FixedState>,
    any: Option<usize>,
    /// Of the pattern that ends here, and of the one that has any rest from here on.
    ends: Option<T>,
    rest: Option<T>,
}

const ROOT: usize = 0;

impl<T: Default> Tree<T> {
    /// The value of a pattern, which is made if there is none.
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
    /// Calls `found` with the value of every pattern that matches, in no order. A name that is not known, `None`, is
    /// matched by what stands for any.
    pub fn matching<'t, N: AsRef<str>>(
        &'t self,
        names: impl Iterator<Item = Option<N>> + Clone,
        mut found: impl FnMut(&'t T),
    ) {
        // Where a name is matched in two ways, the other is left for later.
        let mut left = Vec::new();
        let mut next = Some((ROOT, names));
        while let Some((at, mut names)) = next {
            let node = &self.0[at];
            node.rest.iter().for_each(&mut found);
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
                    node.ends.iter().for_each(&mut found);
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
