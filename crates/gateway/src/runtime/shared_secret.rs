//! The secret for the keys of all gateways on one Redis. It is configured, or the first gateway
//! makes it, and the others read it from Redis.
//!
//! A configured secret is compared by its fingerprint alone. While the secret in Redis is unknown
//! or differs, Redis does not decide: two secrets would be two budgets for every client.

use std::time::Duration;

use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand;
use tidegate_store::{Agreement, RedisStore, StoreError};
use tidegate_tower::Hasher;

use tidegate_config::Secret;

/// The interval between two comparisons with Redis, which has no secret after it lost its data.
const EVERY: Duration = Duration::from_secs(5);
/// The wait before another call, if Redis did not answer.
const RETRY: Duration = Duration::from_millis(250);

/// The text in Redis before a secret that a gateway made.
const MADE: &str = "secret ";
/// The text in Redis before the fingerprint of a configured secret.
const CONFIGURED: &str = "fingerprint ";

/// The secret of this gateway, compared with the secret in Redis.
#[derive(Debug)]
pub(crate) struct SharedSecret {
    hasher: Hasher,
    is_configured: bool,
    // The value for Redis if it has none.
    own: String,
    known: Agreement,
}

impl SharedSecret {
    /// Takes the configured secret, or makes one. Fails if the system gives no random numbers for it.
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

    /// Returns a hasher with the secret. Its clones follow when another secret is found in Redis.
    pub(crate) fn hasher(&self) -> Hasher {
        self.hasher.clone()
    }

    /// Compares the secret with Redis, and lets Redis decide if they agree. If Redis does not answer, all stays as it is.
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

    /// Compares at intervals until the future is dropped.
    pub(crate) async fn keep(mut self, store: &RedisStore) {
        loop {
            let settled = self.settle(store).await;
            let unsettled = settled.is_err() && self.known == Agreement::Unknown;
            tokio::time::sleep(if unsettled { RETRY } else { EVERY }).await;
        }
    }
}

/// Returns 256 random bits in hexadecimal digits.
fn random() -> Result<String, Unspecified> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
