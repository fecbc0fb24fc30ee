//! Reads the keys of limits for operators.

use std::collections::HashSet;
use std::time::Duration;

use tidegate_core::{Micros, Quota};
use tidegate_redis::{Cursor, Word};

use super::Caller;
use crate::charge::LimitIds;
use crate::counts::EXAMINED;
use crate::{Charge, Counts, KeyPage, StoreError};

/// Script that reads the stored counts of a key.
pub(in crate::redis::script) const COUNTS: &str = include_str!("../../../../../../lua/counts.lua");

impl Caller {
    /// Returns the counts of a charge's key.
    pub(in crate::redis) async fn counts(
        &self,
        charge: &Charge<'_>,
        now: Micros,
        patience: Duration,
    ) -> Result<Counts, StoreError> {
        let key = charge.redis_key(&self.key_prefix);
        let held = format!("{key}:held");
        let keys = [key, held].map(Word::from);
        let reply = self.shards.eval::<Vec<u8>>(&keys, COUNTS, &[], patience);
        let (_, reply) = reply.await?;
        let mut texts = reply.iter().map(|text| String::from_utf8_lossy(text));
        let mut next = || texts.next().unwrap_or_default();
        let (state, held) = (next(), next());
        let quota: &Quota = charge.limit.quota();
        Ok(Counts::read(quota, &state, held.parse().unwrap_or(0), now))
    }

    /// Returns the keys of these limits among the next keys of Redis. The names of the limits begin with `name`.
    pub(in crate::redis) async fn limit_keys(
        &self,
        limits: &LimitIds<'_>,
        name: &str,
        from: Cursor,
        patience: Duration,
    ) -> Result<KeyPage, StoreError> {
        let pattern = format!("{}:{{*}}:{}*", escaped(&self.key_prefix), escaped(name));
        let step = self.shards.scan(from, &pattern, EXAMINED, patience).await?;
        let mut seen = HashSet::new();
        let keys = step.keys.iter();
        let keys = keys.filter_map(|key| limits.read(&self.key_prefix, key));
        // The holds and the block of a key have keys of their own.
        let keys = keys.filter(|(limit, key)| seen.insert((limit.id_hash(), *key)));
        Ok(KeyPage {
            keys: keys.collect(),
            next: step.next,
        })
    }
}

/// Escapes the characters that have a meaning in patterns of `SCAN`.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '^' | '\\') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
