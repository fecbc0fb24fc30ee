//! The secret with which all gateways on one Redis make the keys of budgets. If no secret is configured, the first gateway makes a secret,
//! and the other gateways read this secret from Redis.
//!
//! Redis stores only the fingerprint of a configured secret, for comparison. While the secret in Redis is unknown or different, the gateway
//! lets Redis make no decisions: with two secrets, each client would have two budgets.

use std::time::Duration;

use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand;
use tidegate_store::{Agreement, RedisStore, StoreError};
use tidegate_tower::Hasher;

use tidegate_config::Secret;

/// The interval between two comparisons with Redis. If Redis loses its data, the next comparison stores the secret again.
const EVERY: Duration = Duration::from_secs(5);
/// The time before the next comparison if Redis has never answered.
const RETRY: Duration = Duration::from_millis(250);

/// The prefix of the value in Redis if a gateway made the secret.
const MADE: &str = "secret ";
/// The prefix of the value in Redis if it is the fingerprint of a configured secret.
const CONFIGURED: &str = "fingerprint ";

/// This gateway's secret, and the result of the last comparison with the secret in Redis.
#[derive(Debug)]
pub(crate) struct SharedSecret {
    hasher: Hasher,
    is_configured: bool,
    // The value to store in Redis if Redis has none.
    own: String,
    agreement: Agreement,
}

impl SharedSecret {
    /// Uses the configured secret, or makes one. Fails if the system gives no random numbers.
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
            agreement: Agreement::Unknown,
        })
    }

    /// Returns a hasher with the secret. If this gateway later reads another gateway's secret from Redis, the hasher changes to the secret
    /// from Redis.
    pub(crate) fn hasher(&self) -> Hasher {
        self.hasher.clone()
    }

    /// Compares the secret with the secret in Redis, and allows decisions by Redis if both secrets are equal. If Redis does not answer,
    /// keeps the previous result.
    pub(crate) async fn settle(&mut self, store: &RedisStore) -> Result<(), StoreError> {
        store.set_agreement(self.agreement);
        let value = store.shared_secret(&self.own).await?;
        let agreement = match value.strip_prefix(MADE) {
            _ if value == self.own => Agreement::Agreed,
            Some(made) if !self.is_configured => {
                // The secret is replaced before Redis makes decisions, so that no key in Redis is made with the previous secret.
                self.hasher.replace(made);
                self.own = value;
                Agreement::Agreed
            }
            _ => Agreement::Differs,
        };
        if self.agreement != agreement && agreement == Agreement::Differs {
            tracing::error!(
                "the gateways on this Redis use another `secret`: each limit follows its on_failure. All gateways need \
                 the same one; to change it, change `key_prefix` as well"
            );
        }
        self.agreement = agreement;
        store.set_agreement(agreement);
        Ok(())
    }

    /// Repeats the comparison until the future is dropped.
    pub(crate) async fn keep(mut self, store: &RedisStore) {
        loop {
            let settled = self.settle(store).await;
            let unsettled = settled.is_err() && self.agreement == Agreement::Unknown;
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
