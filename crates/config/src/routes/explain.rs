//! Describes a route's handling of requests, for `tidegate explain`.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

use tidegate_upstream::{ServerSettings, Speaks, UpstreamSettings};

use crate::routes::{RouteSettings, UpstreamHost};

impl RouteSettings {
    /// Writes the route's handling of requests, one line per key of the route.
    ///
    /// # Errors
    ///
    /// None: writing to a `String` cannot fail.
    pub fn explain(&self, text: &mut String) -> fmt::Result {
        let case = match self.shape.path.ignores_case() {
            true => ", in letters of either case",
            false => "",
        };
        writeln!(text, "route:    {}{case}", self.name)?;
        if let Some(conditions) = &self.shape.conditions {
            conditions.explain(text)?;
        }
        match &self.upstream {
            Some(settings) => upstream(text, settings)?,
            None => writeln!(text, "serve:    the client's own budgets, as JSON")?,
        }
        if !self.forward.upgrades.is_empty() {
            let upgrades = self.forward.upgrades.join(", ");
            writeln!(text, "upgrade:  to {upgrades} is allowed")?;
        }
        if let Some(retries) = &self.forward.retries {
            let (attempts, budget) = (retries.attempts, retries.budget);
            writeln!(
                text,
                "retries:  up to {attempts}, of GET, HEAD and OPTIONS, within {budget}% of the requests"
            )?;
        }
        if self.forward.edits.upstream_host == UpstreamHost::Keep
            && let Some(upstream) = &self.upstream
            && upstream.servers.iter().any(is_named)
        {
            writeln!(
                text,
                "host:     the client's; `upstream_host: upstream` sends the server's"
            )?;
        }
        self.forward.edits.explain(text)?;
        self.cors.as_ref().map_or(Ok(()), |cors| cors.explain(text))
    }
}

/// Returns whether a server's URL has the scheme https and a host name. Many such servers refuse requests whose `Host` differs from this
/// name.
fn is_named(server: &ServerSettings) -> bool {
    matches!(server.speaks, Speaks::Tls(_)) && server.endpoint().0.parse::<IpAddr>().is_err()
}

fn upstream(text: &mut String, upstream: &UpstreamSettings) -> fmt::Result {
    let servers = upstream.servers.iter().map(|server| match server.weight {
        1 => server.to_string(),
        weight => format!("{server} (weight {weight})"),
    });
    let servers: Vec<_> = servers.collect();
    writeln!(text, "upstream: {}", servers.join(", "))?;
    match &upstream.sticky {
        Some(_) => writeln!(text, "balance:  {}", upstream.balance_text()),
        None => Ok(()),
    }
}
