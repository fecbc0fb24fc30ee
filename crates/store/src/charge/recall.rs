//! Clients whose cached decisions are void.

use std::collections::HashSet;

use super::Key;

/// Clients whose limits have changed, so that their cached refusals and their slices must not be used any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recall {
    /// All clients.
    All,
    /// The clients with these hashes ([`Key::tag`]).
    Clients(HashSet<[u8; 16]>),
}

impl Recall {
    pub(crate) fn concerns(&self, key: &Key) -> bool {
        match self {
            Self::All => true,
            Self::Clients(tags) => tags.contains(&key.tag),
        }
    }
}
