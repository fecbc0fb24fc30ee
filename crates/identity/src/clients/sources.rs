//! The headers and keys of client sources, and the last use of a client's API keys. During a rotation of keys, the last use shows whether a
//! client still uses the old key.

use http::HeaderName;

use super::{Client, ClientSource, Clients};
use crate::api_keys::{ApiKeys, KeyUse};
use crate::jwt::Tokens;

impl Clients {
    /// Whether certificates name clients.
    pub fn read_certificates(&self) -> bool {
        let mut sources = self.sources.iter();
        sources.any(|source| matches!(source, ClientSource::Certificate(_)))
    }

    /// Whether headers of trusted proxies name users.
    pub(super) fn has_user_ids(&self) -> bool {
        let mut sources = self.sources.iter();
        sources.any(|source| matches!(source, ClientSource::UserId { .. }))
    }

    /// Whether tokens name users.
    pub fn has_tokens(&self) -> bool {
        self.tokens().next().is_some()
    }

    /// Whether any token source has no keys yet, so that the source cannot name clients.
    pub fn lack_keys(&self) -> bool {
        self.tokens().any(|tokens| !tokens.has_keys())
    }

    /// Returns the sources of tokens.
    pub fn tokens(&self) -> impl Iterator<Item = &Tokens> {
        self.sources.iter().filter_map(|source| match source {
            ClientSource::Token(tokens) => Some(&**tokens),
            _ => None,
        })
    }

    pub(super) fn api_keys(&self) -> impl Iterator<Item = &ApiKeys> {
        self.sources.iter().filter_map(|source| match source {
            ClientSource::ApiKey { keys, .. } => Some(keys),
            _ => None,
        })
    }

    /// Returns the headers with user IDs, which only trusted proxies may send. Also returns the header that sends the client's name to the
    /// upstream.
    pub fn vouched_headers(&self) -> impl Iterator<Item = &HeaderName> {
        let named = self.sources.iter().filter_map(|source| match source {
            ClientSource::UserId { header } => Some(header),
            _ => None,
        });
        named.chain(&self.forward_client)
    }

    /// Returns the headers that client sources read, and the header that sends the client's name to the upstream.
    pub fn read_headers(&self) -> impl Iterator<Item = &HeaderName> {
        let read = self.sources.iter().filter_map(ClientSource::header);
        read.chain(&self.forward_client)
    }

    /// Returns the listed keys of a client. The most recently used key comes first.
    pub fn key_uses(&self, client: &Client) -> Vec<KeyUse> {
        let Client::ApiKey(name) = client else {
            return Vec::new();
        };
        let mut uses: Vec<_> = self.api_keys().flat_map(|keys| keys.uses(name)).collect();
        uses.sort_by_key(|key| (std::cmp::Reverse(key.last_used), key.sha256));
        uses
    }

    /// Takes over the times of last use from `before`, the clients of the previous configuration. Keys are matched by their hashes.
    pub fn take_key_uses(&self, before: &Self) {
        for keys in self.api_keys() {
            before
                .api_keys()
                .for_each(|earlier| keys.take_uses(earlier));
        }
    }
}
