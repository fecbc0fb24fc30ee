//! What is known to be broken and not mended yet: trials find it, and do not fail for it. It should be empty.

/// The names of promises.
pub(crate) const PROMISES: &[&str] = &[
    "concurrency",
    "delay",
    "kept",
    "leased",
    "on_failure_local",
    "refusal",
];
