//! Renews credentials while a gateway runs: files with API keys, key sets for tokens, the file with denied networks, and the
//! certificates of listeners.
//!
//! Whatever goes wrong, what was known stays in force. Requests look things up in the tables that these tasks replace, and never wait
//! for one.

pub(crate) mod certificate_watch;
pub(crate) mod files;
pub(crate) mod jwks;

#[cfg(test)]
mod tests;
