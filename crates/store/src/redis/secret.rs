//! The secret that gateways on one Redis share, or its fingerprint: all of them count under the same keys, or do not count
//! here at all.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::RedisStore;
use crate::StoreError;

/// How long Redis keeps it after a gateway has last asked: longer than the state of any limit lives (31 days, twice).
const KEPT: Duration = Duration::from_secs(64 * 24 * 60 * 60);

/// What came of comparing notes with the other gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Agreement {
    /// All count under the same keys.
    Agreed,
    /// Nothing is known yet; until it is, Redis is not asked to decide.
    Unknown,
    /// Others count under other keys; while that is so, Redis is not asked to decide.
    Differs,
}

/// The last [`Agreement`], as decisions read it.
#[derive(Debug)]
pub(super) struct SecretState {
    agreement: AtomicU8,
    // Why it could not be asked for, last.
    error: Mutex<Option<StoreError>>,
}

impl Default for SecretState {
    fn default() -> Self {
        Self {
            agreement: AtomicU8::new(Agreement::Agreed as u8),
            error: Mutex::default(),
        }
    }
}

impl SecretState {
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self.agreement.load(Ordering::Acquire) {
            agreed if agreed == Agreement::Agreed as u8 => Ok(()),
            unknown if unknown == Agreement::Unknown as u8 => {
                // What is in the way says more than that something is.
                let error = self.error.lock().clone();
                Err(error.unwrap_or(StoreError::SecretUnknown))
            }
            _ => Err(StoreError::SecretDiffers),
        }
    }
}

impl RedisStore {
    /// What stands in Redis for all gateways under `<key_prefix>:secret`: `own`, if nothing did. It stays there for 64
    /// days after the last call.
    pub async fn shared_secret(&self, own: &str) -> Result<String, StoreError> {
        let key = format!("{}:secret", self.caller.key_prefix);
        let asked = self.caller.shards.set_once(&key, own, KEPT);
        let answer = tokio::time::timeout(self.timeout, asked).await;
        let answer = answer.unwrap_or(Err(StoreError::Timeout));
        *self.secret.error.lock() = answer.as_ref().err().cloned();
        answer
    }

    /// Lets Redis decide, or not. A store begins [agreed](Agreement::Agreed).
    pub fn set_agreement(&self, agreement: Agreement) {
        self.secret
            .agreement
            .store(agreement as u8, Ordering::Release);
    }
}
