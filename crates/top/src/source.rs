//! A gateway, and the function that reads its documents.

use std::fmt;

use serde::Deserialize;
use tidegate_status::client::Report;
use tidegate_status::document::{Status, VERSION};

use crate::budgets::escaped;

/// A function that requests a path from a gateway's admin port, and returns the body. The error text names the gateway.
pub type Read = Box<dyn Fn(&str) -> Result<Vec<u8>, String> + Send + Sync>;

/// A gateway that the program reads.
pub struct Source {
    /// The gateway's address as the user wrote it, for messages.
    pub name: String,
    /// Requests a path from the gateway's admin port.
    pub read: Read,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The version of a document. The version is read before all other fields, because other versions may have other fields.
#[derive(Deserialize)]
struct Versioned {
    version: u64,
}

impl Source {
    /// Reads the gateway's `/status.json`. The series are the largest part of the document, so they are requested only if `has_series`.
    /// Older gateways ignore `series=none` and always send series.
    pub(crate) fn status(&self, has_series: bool) -> Result<Status, String> {
        let text = (self.read)(match has_series {
            true => "/status.json",
            false => "/status.json?series=none",
        })?;
        let name = &self.name;
        let wrong =
            |error| format!("{name}: the answer is not that of a gateway's /status.json: {error}");
        let Versioned { version } = serde_json::from_slice(&text).map_err(wrong)?;
        if version != u64::from(VERSION) {
            return Err(format!(
                "gateway {name} has version {version} of /status.json; this program reads version {VERSION}: use the `tidegate` of that gateway"
            ));
        }
        serde_json::from_slice(&text).map_err(wrong)
    }

    /// Reads a client's budgets from the gateway.
    pub(crate) fn report(&self, client: &str) -> Result<Report, String> {
        let text = (self.read)(&format!("/clients/{}", escaped(client)))?;
        let name = &self.name;
        serde_json::from_slice(&text).map_err(|error| {
            format!("{name}: the answer is not that of a gateway's /clients/{{name}}: {error}")
        })
    }
}
