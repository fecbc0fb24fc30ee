//! Names of headers that the gateway reads on a route, and other spellings that some servers mistake for these names.
//!
//! Servers that pass headers to programs as variables (CGI, FastCGI, WSGI) merge similar names. `X-API-Key`, `x_api_key` and, on some
//! servers, `x.api.key` all become `HTTP_X_API_KEY`. The gateway reads only the exact name, so a client could use another spelling to
//! deceive the server.

use http::HeaderName;
use tidegate_identity::Clients;
use tidegate_net::headers::{folded, is_odd};
use tidegate_tower::{Per, Rule};

/// The headers of one route that name callers, choose the route, or are read by its limits.
#[derive(Debug)]
pub(crate) struct ReadHeaders {
    /// Headers that name a user or the client, which only trusted peers may send.
    vouched: Box<[HeaderName]>,
    /// All headers, each with its normalized name for comparisons.
    all: Box<[(HeaderName, Box<str>)]>,
    /// Whether a name in `all` differs from its normalized name.
    has_odd: bool,
}

impl ReadHeaders {
    /// Returns the headers that these client sources and the rules of a route read, and the headers in `matched`, which choose routes.
    pub(crate) fn new(clients: &Clients, rules: &[Rule], matched: &[HeaderName]) -> Self {
        let costs = rules.iter().filter_map(|rule| rule.cost.request_header());
        let counted = rules.iter().flat_map(|rule| rule.per.iter());
        let counted = counted.filter_map(|per| match per {
            Per::Header(name) => Some(name),
            _ => None,
        });
        let all: Box<[(HeaderName, Box<str>)]> = clients
            .read_headers()
            .chain(costs)
            .chain(counted)
            .chain(matched)
            .map(|name| (name.clone(), folded(name.as_str()).into()))
            .collect();
        Self {
            vouched: clients.vouched_headers().cloned().collect(),
            has_odd: all.iter().any(|(name, _)| is_odd(name.as_str())),
            all,
        }
    }

    /// Whether only trusted peers may send this header.
    pub(super) fn vouches(&self, name: &HeaderName) -> bool {
        self.vouched.contains(name)
    }

    /// Whether the gateway reads this header on the route.
    pub(super) fn reads(&self, name: &HeaderName) -> bool {
        self.all.iter().any(|(own, _)| own == name)
    }

    /// Whether this name could be another spelling of a listed header, or of a header that the gateway handles itself.
    pub(super) fn may_be_alias(&self, name: &str) -> bool {
        self.has_odd || is_odd(name)
    }

    /// Whether this name is another spelling of a listed header, so that servers may mistake it for the listed header.
    pub(super) fn is_alias(&self, name: &HeaderName) -> bool {
        let folded = folded(name.as_str());
        let mut all = self.all.iter();
        all.any(|(own, own_folded)| **own_folded == *folded && own != name)
    }
}
