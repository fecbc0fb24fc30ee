//! Counters of the admin port.

use super::registrar::{Registrar, Words};

/// The counters of the admin port.
#[derive(Debug)]
pub struct AdminMetrics(Words);

impl AdminMetrics {
    pub(super) fn new(registrar: &mut Registrar) -> Self {
        let refused = registrar.add_family(
            "admin_requests_refused",
            "error",
            "Requests that the admin port refused, by error",
        );
        Self(refused.with(["admin_token_wrong", "admin_role_needed", "foreign_host"]))
    }

    /// Counts a request that was refused with this error.
    pub fn refused(&self, error: &'static str) {
        self.0.inc(error);
    }
}
