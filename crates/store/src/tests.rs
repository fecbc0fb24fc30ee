//! A system's clock that is wrong, for tests on one thread.

use std::cell::Cell;

thread_local! {
    /// How far it is ahead, in us.
    pub(crate) static AHEAD: Cell<i64> = const { Cell::new(0) };
}
