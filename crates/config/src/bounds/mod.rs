//! Bounds of a gateway: connections, memory and bodies (`max_connections`, `max_connections_per_ip`, `max_memory`, `max_body`), and
//! timeouts (`timeouts`).

pub(crate) mod timeouts;

use crate::yaml::Problem;
use serde_json::Map;

use crate::check::Check;
use crate::value::number::Connections;
use crate::value::size::{size, size_schema};
use crate::value::{Fault, Scalar, Value};

/// The most bytes of a request body. `None` means no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyLimit(pub(crate) Option<u64>);

impl Value for BodyLimit {
    const NAME: &'static str = "BodyLimit";
    const WHAT: &'static str = "a size";
    const ALLOWED: &'static str =
        "`none`, or bytes, or a whole number and a unit (KB, MB, GB), such as 512KB or 10MB";

    fn read(text: &str) -> Result<Self, Fault> {
        size(text).map(Self)
    }

    fn schema() -> Map<String, serde_json::Value> {
        size_schema()
    }
}

/// The most bytes of memory. `None` means no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryLimit(pub(crate) Option<u64>);

impl MemoryLimit {
    /// The smallest bound, in bytes. With less memory, a gateway can hardly start.
    const LEAST: u64 = 64 << 20;
}

impl Value for MemoryLimit {
    const NAME: &'static str = "MemoryLimit";
    const WHAT: &'static str = "a size of memory";
    const ALLOWED: &'static str = "`none`, or 64MB or more, as bytes or a whole number and a unit (KB, MB, GB), such as 512MB";

    fn read(text: &str) -> Result<Self, Fault> {
        match size(text)? {
            Some(bytes) if bytes < Self::LEAST => Err(Fault::Form),
            size => Ok(Self(size)),
        }
    }

    fn schema() -> Map<String, serde_json::Value> {
        size_schema()
    }
}

/// Warns if `max_connections_per_ip` is above `max_connections`, because the bound per address then has no effect.
pub(crate) fn useless_share(
    check: &mut Check<'_>,
    all: Option<Connections>,
    per_ip: Option<Connections>,
    written: Option<&Scalar<Connections>>,
) {
    if let (Some(Connections(all)), Some(Connections(per_ip))) = (all, per_ip)
        && per_ip > all
    {
        let place = written.and_then(|scalar| scalar.place);
        let problem = Problem::new(place, "this bound per address has no effect");
        check.warn(problem.note(format!(
            "all addresses together may have {all} (`max_connections`): write a smaller number, or leave this out"
        )));
    }
}

#[cfg(test)]
mod tests;
