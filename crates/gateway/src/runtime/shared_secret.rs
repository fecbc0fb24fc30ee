//! The secret under which all gateways on one Redis count. It is the one that is configured, or one that the first gateway makes
//! and the others find there.
//!
//! A configured secret is compared by its fingerprint alone. While it is not known, or others have another, Redis is not
//! asked to decide: two secrets would be two budgets for every client.

use std::time::Duration;

use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand;
use tidegate_store::{Agreement, RedisStore, StoreError};
use tidegate_tower::Hasher;

use tidegate_config::Secret;

/// How often what stands in Redis is compared again, since a Redis that lost its data knows no secret.
const EVERY: Duration = Duration::from_secs(5);
/// How long until Redis is asked again when it did not answer.
const RETRY: Duration = Duration::from_millis(250);

/// What stands in Redis before a secret that a gateway made.
const MADE: &str = "secret ";
/// What stands in Redis before the fingerprint of one that is configured.
const CONFIGURED: &str = "fingerprint ";

/// Keeps the gateways on one Redis together.
#[derive(Debug)]
pub(crate) struct SharedSecret {
    hasher: Hasher,
    is_configured: bool,
    // What is put into Redis if nothing stands there.
    own: String,
    known: Agreement,
}

impl SharedSecret {
    /// With the configured secret, or one that is made now; the system may have no random numbers for that.
    pub(crate) fn new(secret: Option<&Secret>) -> Result<Self, Unspecified> {
        let (hasher, own) = match secret {
            Some(secret) => {
                let hasher = Hasher::new(secret.expose());
                let own = format!("{CONFIGURED}{}", hasher.fingerprint());
                (hasher, own)
            }
            None => {
                let made = random()?;
                (Hasher::new(&made), format!("{MADE}{made}"))
            }
        };
        Ok(Self {
            hasher,
            is_configured: secret.is_some(),
            own,
            known: Agreement::Unknown,
        })
    }

    /// What hashes with it; clones follow when it becomes known.
    pub(crate) fn hasher(&self) -> Hasher {
        self.hasher.clone()
    }

    /// Compares with what stands in Redis, and lets it decide if all is well; if it does not answer, all stays as it is.
    pub(crate) async fn settle(&mut self, store: &RedisStore) -> Result<(), StoreError> {
        store.set_agreement(self.known);
        let found = store.shared_secret(&self.own).await?;
        let agreement = match found.strip_prefix(MADE) {
            _ if found == self.own => Agreement::Agreed,
            Some(made) if !self.is_configured => {
                // Before decisions begin.
                self.hasher.replace(made);
                self.own = found;
                Agreement::Agreed
            }
            _ => Agreement::Differs,
        };
        if self.known != agreement && agreement == Agreement::Differs {
            tracing::error!(
                "the gateways on this Redis use another `secret`: each limit follows its on_failure. All gateways need \
                 the same one; to change it, change `key_prefix` as well"
            );
        }
        self.known = agreement;
        store.set_agreement(agreement);
        Ok(())
    }

    /// Compares again and again, for as long as the future is polled.
    pub(crate) async fn keep(mut self, store: &RedisStore) {
        loop {
            let settled = self.settle(store).await;
            let unsettled = settled.is_err() && self.known == Agreement::Unknown;
            tokio::time::sleep(if unsettled { RETRY } else { EVERY }).await;
        }
    }
}

/// 256 bits in hexadecimal digits.
fn random() -> Result<String, Unspecified> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
