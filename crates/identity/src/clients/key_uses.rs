//! When the API keys of a client were used last: so the old key of a rotation can be seen to be out of use.

use super::{Client, ClientSource, Clients};
use crate::api_keys::KeyUse;

impl Clients {
    /// Returns the listed keys of a client, the one used last first.
    pub fn key_uses(&self, client: &Client) -> Vec<KeyUse> {
        let Client::ApiKey(name) = client else {
            return Vec::new();
        };
        let mut uses = Vec::new();
        for source in &self.sources {
            if let ClientSource::ApiKey { keys, .. } = source {
                uses.extend(keys.uses(name));
            }
        }
        uses.sort_by_key(|key| (std::cmp::Reverse(key.last_used), key.sha256));
        uses
    }

    /// Takes over when keys were used under the configuration `before`. Keys are the same if their hashes are.
    pub fn take_key_uses(&self, before: &Self) {
        for source in &self.sources {
            for earlier in &before.sources {
                if let (
                    ClientSource::ApiKey { keys, .. },
                    ClientSource::ApiKey { keys: earlier, .. },
                ) = (source, earlier)
                {
                    keys.take_uses(earlier);
                }
            }
        }
    }
}
