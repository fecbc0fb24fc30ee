//! What scripts take of a limit (lua/README.md).

use std::sync::Arc;

use tidegate_core::Block;
use tidegate_redis::Word;

use super::Limit;

/// Where the cost stands, which each charge has of its own.
pub(crate) const COST: usize = 1;

/// Where the lease stands.
pub(crate) const LEASE: usize = 4;

/// The algorithm, the cost, the limit's ways, and the quota's numbers; those of a calendar are only places for them.
pub(super) fn of(limit: &Limit) -> Arc<[Word]> {
    let number = |number: u64| Word::interned(number.to_string());
    let mut words = vec![
        Word::from(limit.quota().algorithm()),
        Word::default(),
        number(u64::from(limit.is_observed())),
        // Below 0 if refused requests prolong it.
        match limit.block() {
            None => number(0),
            Some(Block {
                span,
                extend: false,
            }) => number(span),
            Some(Block { span, extend: true }) => Word::interned(format!("-{span}")),
        },
        number(limit.lease().unwrap_or(0)),
    ];
    words.extend(limit.quota().numbers(0).iter().copied().map(number));
    words.into()
}
