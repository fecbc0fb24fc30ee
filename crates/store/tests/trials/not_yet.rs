//! What is known to be broken and not mended yet: trials find it, and do not fail for it. It should be empty.

/// The names of promises.
pub(crate) const PROMISES: &[&str] = &[
    // Places that are lost with the answer to a renewal.
    "concurrency",
    "refusal",
    // Plans that erase each other's debts.
    "delay",
    "leaky_bucket",
    "leased",
    "local",
    "token_bucket",
    // Settlements that are lost, and those of requests that a reset has overtaken.
    "kept",
];
