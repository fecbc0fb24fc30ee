//! Functions for tests of values.

use crate::value::Value;

#[track_caller]
pub(crate) fn good<T: Value>(text: &str) -> T {
    T::read(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}"))
}

#[track_caller]
pub(crate) fn bad<T: Value>(texts: &[&str]) {
    for text in texts {
        assert!(T::read(text).is_err(), "{text} is not {}", T::WHAT);
    }
}
