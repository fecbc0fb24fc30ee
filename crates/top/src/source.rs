//! A gateway to look at, and what is read from it.

use std::fmt;

use serde::Deserialize;
use tidegate_status::client::Report;
use tidegate_status::document::{Status, VERSION};

use crate::budgets::escaped;

/// Reads a path of the admin port of a gateway, or says why not. The text names the gateway.
pub type Read = Box<dyn Fn(&str) -> Result<Vec<u8>, String> + Send + Sync>;

/// A gateway to look at.
pub struct Source {
    /// Its address as the user has written it, for messages.
    pub name: String,
    /// Reads from it.
    pub read: Read,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// What is read of a document before the rest: of another version, the rest may have another form.
#[derive(Deserialize)]
struct Versioned {
    version: u64,
}

impl Source {
    /// Reads the document of the gateway. Most of a document is series. Gateways that do not know the question send them in any case.
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

    /// How a client stands on the gateway.
    pub(crate) fn report(&self, client: &str) -> Result<Report, String> {
        let text = (self.read)(&format!("/clients/{}", escaped(client)))?;
        let name = &self.name;
        serde_json::from_slice(&text).map_err(|error| {
            format!("{name}: the answer is not that of a gateway's /clients/{{name}}: {error}")
        })
    }
}
