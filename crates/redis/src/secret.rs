//! The agreement of all gateways on one Redis about their secret. The keys of budgets depend on the secret, so a gateway with another
//! secret must not use this Redis.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::complaints::Complaints;
use super::error::CallError;
use super::shards::Shards;

/// The time for which Redis keeps the shared value after the last call of a gateway. The state of a limit expires earlier, after at most
/// twice 31 days.
const KEPT: Duration = Duration::from_secs(64 * 24 * 60 * 60);

/// The result of comparing this gateway's secret with the value in Redis that all gateways share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Agreement {
    /// All gateways count under the same keys.
    Agreed,
    /// There is no result yet, so this gateway requests no decisions from Redis.
    Unknown,
    /// Other gateways have another secret and count under other keys, so this gateway requests no decisions from Redis.
    Differs,
}

/// The current [`Agreement`], which decisions check, and the last error of a call for the secret.
#[derive(Debug)]
pub struct Secret {
    agreement: AtomicU8,
    // The error of the last call for the secret, if it failed.
    error: Mutex<Option<CallError>>,
    complaints: Complaints,
}

impl Default for Secret {
    fn default() -> Self {
        Self {
            agreement: AtomicU8::new(Agreement::Agreed as u8),
            error: Mutex::default(),
            complaints: Complaints::default(),
        }
    }
}

impl Secret {
    /// Checks that Redis may make decisions.
    ///
    /// # Errors
    ///
    /// The secret is unknown, or other gateways use another secret.
    pub fn check(&self) -> Result<(), CallError> {
        match self.agreement.load(Ordering::Acquire) {
            agreed if agreed == Agreement::Agreed as u8 => Ok(()),
            unknown if unknown == Agreement::Unknown as u8 => {
                // The error of the last call has more detail than `SecretUnknown`.
                let error = self.error.lock().clone();
                Err(error.unwrap_or(CallError::SecretUnknown))
            }
            _ => Err(CallError::SecretDiffers),
        }
    }

    /// Returns the value under `<key_prefix>:secret`, which all gateways share. Stores `own` if there is none. The value expires 64 days
    /// after the last call.
    ///
    /// # Errors
    ///
    /// Redis does not answer within `timeout`, or returns an error.
    pub async fn shared(
        &self,
        shards: &Shards,
        key_prefix: &str,
        own: &str,
        timeout: Duration,
    ) -> Result<String, CallError> {
        let key = format!("{key_prefix}:secret");
        let call = shards.set_once(&key, own, KEPT);
        let answer = tokio::time::timeout(timeout, call).await;
        let answer = answer.unwrap_or(Err(CallError::Timeout));
        if let Err(error) = &answer
            && shards.connected().is_ok()
            && self.complaints.is_due(error)
        {
            tracing::warn!(
                %error,
                "the secret that gateways share cannot be read from Redis; as long as it is unknown, each limit follows its \
                 on_failure"
            );
        }
        *self.error.lock() = answer.as_ref().err().cloned();
        answer
    }

    /// Sets the agreement. The initial state is [`Agreed`](Agreement::Agreed).
    pub fn set(&self, agreement: Agreement) {
        self.agreement.store(agreement as u8, Ordering::Release);
    }
}
