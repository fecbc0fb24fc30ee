//! Renews, while a gateway runs, what tells callers apart: files with API keys, the key sets of those who issue tokens, the file with
//! denied networks, and the certificates of listeners.
//!
//! Whatever goes wrong, what was known stays in force. Requests look things up in the tables that these tasks replace, and never wait
//! for one.

pub mod certificate_watch;
pub mod deny_file;
pub mod jwks;
pub mod key_files;
