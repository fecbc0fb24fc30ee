//! Reads the table for operators: the counts of a key, and the keys of a limit.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_core::Micros;
use tidegate_redis::Cursor;

use super::Table;
use crate::counts::ENOUGH;
use crate::{Charge, Counts, KeyPage, Limit};

impl Table {
    /// Returns the counts of a charge's key.
    pub(crate) fn counts(&self, charge: &Charge<'_>, now: Micros) -> Counts {
        let (shard, key) = self.locate(charge);
        let quota = charge.limit.quota();
        let held = self.shards.at(shard).held(&key, now);
        let state = held
            .as_ref()
            .map_or_else(|| quota.fresh(), |it| it.state.clone());
        Counts {
            held: held.map_or(0, |it| it.holds.units()),
            windows: quota.windows(&state, now),
        }
    }

    /// Returns the keys of these limits in the shards from `from.part`, until there are enough keys.
    pub(crate) fn keys(&self, limits: &[Arc<Limit>], from: Cursor, now: Micros) -> KeyPage {
        let by_hash: HashMap<u64, &Arc<Limit>> =
            limits.iter().map(|it| (it.id_hash(), it)).collect();
        let mut page = KeyPage::default();
        for part in from.part..self.shards.count() {
            if page.keys.len() >= ENOUGH {
                page.next = Some(Cursor { part, at: 0 });
                break;
            }
            let shard = self.shards.at(part);
            let keys = shard.keys(now).filter_map(|key| {
                let limit = by_hash.get(&key.limit)?;
                Some(((*limit).clone(), key.key))
            });
            page.keys.extend(keys);
        }
        page
    }
}
