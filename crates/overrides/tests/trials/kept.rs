//! Trials that once broke a promise: they are run each time.

/// Their names: a seed, and the parts that are left out.
pub(crate) const TRIALS: &[&str] = &[];
