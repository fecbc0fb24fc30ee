//! Renews credentials and lists while a gateway runs: files with API keys, key sets for tokens, the file with denied networks, and the
//! certificates of listeners.
//!
//! After an error the previous content stays in force. Tasks replace the tables that requests read, so requests never wait for a task.

pub(crate) mod certificate_watch;
pub(crate) mod files;
pub(crate) mod jwks;

#[cfg(test)]
mod tests;
