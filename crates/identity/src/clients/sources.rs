//! What the sources of clients read, and when the API keys of a client were used last: so the old key of a rotation can be seen to be out
//! of use.

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

    /// Whether a source of tokens has no keys yet, so that it can name nobody.
    pub fn lack_keys(&self) -> bool {
        self.tokens().any(|tokens| !tokens.has_keys())
    }

    /// The sources of tokens.
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

    /// The headers that name a user, which only trusted proxies may send on, and the one that names the client.
    pub fn vouched_headers(&self) -> impl Iterator<Item = &HeaderName> {
        let named = self.sources.iter().filter_map(|source| match source {
            ClientSource::UserId { header } => Some(header),
            _ => None,
        });
        named.chain(&self.forward_client)
    }

    /// The headers that a source of clients reads, and the one that names the client.
    pub fn read_headers(&self) -> impl Iterator<Item = &HeaderName> {
        let read = self.sources.iter().filter_map(ClientSource::header);
        read.chain(&self.forward_client)
    }

    /// Returns the listed keys of a client, the one used last first.
    pub fn key_uses(&self, client: &Client) -> Vec<KeyUse> {
        let Client::ApiKey(name) = client else {
            return Vec::new();
        };
        let mut uses: Vec<_> = self.api_keys().flat_map(|keys| keys.uses(name)).collect();
        uses.sort_by_key(|key| (std::cmp::Reverse(key.last_used), key.sha256));
        uses
    }

    /// Takes over when keys were used under the configuration `before`. Keys are the same if their hashes are.
    pub fn take_key_uses(&self, before: &Self) {
        for keys in self.api_keys() {
            before
                .api_keys()
                .for_each(|earlier| keys.take_uses(earlier));
        }
    }
}
