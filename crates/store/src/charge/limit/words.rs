//! The words of a limit, as scripts receive them (lua/README.md).

use std::sync::Arc;

use tidegate_core::Block;
use tidegate_redis::Word;

use super::Limit;

/// The index of the word for the cost. Each charge fills in this word.
pub(crate) const COST: usize = 1;

/// The index of the word for the lease.
pub(crate) const LEASE: usize = 4;

/// Returns the algorithm, an empty word for the cost, the limit's options, and the quota's numbers. The numbers of a calendar are
/// placeholders, because they depend on the time of the call.
pub(super) fn of(limit: &Limit) -> Arc<[Word]> {
    let number = |number: u64| Word::interned(number.to_string());
    let mut words = vec![
        Word::from(limit.quota().algorithm()),
        Word::default(),
        number(u64::from(limit.is_observed())),
        // A negative number if refused requests prolong the block.
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
