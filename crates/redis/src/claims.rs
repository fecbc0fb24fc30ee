//! Claims on events, so that the gateways on one Redis report each event once. No request waits for these calls.

use std::sync::Arc;
use std::time::Duration;

use super::error::CallError;
use super::shards::Shards;
use super::word::Word;

const SCRIPT: &str = include_str!("../../../lua/claim.lua");
/// The timeout of a call.
const PATIENCE: Duration = Duration::from_secs(1);

/// The claims of one gateway.
#[derive(Debug)]
pub struct Claims {
    shards: Arc<Shards>,
    key_prefix: Box<str>,
    gateway: Word,
}

/// The state of an event's claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// This gateway reports the event.
    Own,
    /// Another gateway reports the event.
    Other,
    /// The event was reported.
    Reported,
}

impl Claims {
    /// Makes the claims of the gateway with this ID, which is unique and not empty.
    pub fn new(shards: Arc<Shards>, key_prefix: &str, gateway: &str) -> Self {
        Self {
            shards,
            key_prefix: key_prefix.into(),
            gateway: Word::from(gateway.to_owned()),
        }
    }

    /// Claims an event for `lease`, or renews the claim.
    ///
    /// # Errors
    ///
    /// Redis does not answer within a second, or returns an error. The event may be claimed all the same.
    pub async fn claim(&self, event: &str, lease: Duration) -> Result<Claim, CallError> {
        self.call(event, self.gateway.clone(), lease).await
    }

    /// Records that the event was reported. Redis keeps the record for `kept`.
    ///
    /// # Errors
    ///
    /// The errors of [`claim`](Self::claim).
    pub async fn reported(&self, event: &str, kept: Duration) -> Result<(), CallError> {
        let reported = Word::from("");
        self.call(event, reported, kept).await.map(drop)
    }

    async fn call(&self, event: &str, holder: Word, kept: Duration) -> Result<Claim, CallError> {
        let keys = [Word::from(format!("{}:event:{event}", self.key_prefix))];
        let kept = kept.as_millis().max(1).to_string();
        let arguments = [holder, Word::from(kept)];
        let call = self.shards.eval::<i64>(&keys, SCRIPT, &arguments, PATIENCE);
        let (_, answer) = call.await?;
        Ok(match *answer {
            [1] => Claim::Own,
            [2] => Claim::Reported,
            _ => Claim::Other,
        })
    }
}
