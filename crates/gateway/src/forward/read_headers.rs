//! Header names that a route's limits read, and the other spellings that servers take for them.
//!
//! Servers that hand headers to programs as variables (CGI, FastCGI, WSGI) make one name of many: `X-API-Key`, `x_api_key`
//! and, on some, `x.api.key` are all `HTTP_X_API_KEY`. The gateway reads the exact name only.

use http::HeaderName;
use tidegate_identity::Clients;
use tidegate_net::headers::{folded, is_odd};
use tidegate_tower::{Cost, Per, Rule};

/// The headers that name callers, that limits are counted by on one route, or that choose routes.
#[derive(Debug)]
pub(crate) struct ReadHeaders {
    /// Headers that name a user or the client: only trusted peers may send them.
    vouched: Box<[HeaderName]>,
    /// All headers, each with its folded name.
    all: Box<[(HeaderName, Box<str>)]>,
    /// Whether a name differs from its folded name.
    has_odd: bool,
}

impl ReadHeaders {
    /// Returns the headers of these client sources and of a route with these rules; `matched` choose routes.
    pub(crate) fn new(clients: &Clients, rules: &[Rule], matched: &[HeaderName]) -> Self {
        let costs = rules.iter().filter_map(|rule| match &rule.cost {
            Cost::Header { name, .. } => Some(name),
            _ => None,
        });
        let counted = rules.iter().flat_map(|rule| rule.per.iter());
        let counted = counted.filter_map(|per| match per {
            Per::Header(name) => Some(name),
            _ => None,
        });
        let all = clients.read_headers().chain(costs).chain(counted);
        let all = all.chain(matched);
        let all = all.map(|name| (name.clone(), folded(name.as_str()).into()));
        let all: Box<[(HeaderName, Box<str>)]> = all.collect();
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

    /// Whether a client source or a limit reads this header.
    pub(super) fn reads(&self, name: &HeaderName) -> bool {
        self.all.iter().any(|(own, _)| own == name)
    }

    /// Whether this name could be another spelling of a header here, or of a header that the gateway handles itself.
    pub(super) fn may_be_alias(&self, name: &str) -> bool {
        self.has_odd || is_odd(name)
    }

    /// Whether this name is another spelling of a header here, so that servers may take it for that header.
    pub(super) fn is_alias(&self, name: &HeaderName) -> bool {
        let folded = folded(name.as_str());
        let mut all = self.all.iter();
        all.any(|(own, own_folded)| **own_folded == *folded && own != name)
    }
}
