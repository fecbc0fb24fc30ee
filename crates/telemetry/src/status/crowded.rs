//! Reports limits without room for new keys in this process's store. New keys of such a limit share budgets. The reports are log lines and
//! events.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tidegate_status::document::State;
use tidegate_store::{Crowded, MemoryStore};

/// The time between two log lines about one limit. If a limit has no decision on a shared budget for this time, it counts as having room
/// again.
const AGAIN: Duration = Duration::from_secs(60);

/// The limits without room, and the decisions on their shared budgets.
#[derive(Debug, Default)]
pub(super) struct CrowdedWatch {
    // The number of all decisions on shared budgets when the store was last checked.
    shared: u64,
    limits: BTreeMap<Box<str>, CrowdedNow>,
}

/// A limit without room.
#[derive(Debug)]
struct CrowdedNow {
    decisions: u64,
    why: &'static str,
    last: Instant,
    logged: Instant,
}

impl CrowdedWatch {
    /// Logs each limit that has made further decisions on shared budgets since the last check, at most once per [`AGAIN`]. Returns an event
    /// for each limit that has run out of room, or that has room again.
    pub(super) fn look(&mut self, store: &MemoryStore, now: Instant) -> Vec<(State, String)> {
        let mut news = Vec::new();
        let shared = store.usage().shared;
        if shared > self.shared {
            self.shared = shared;
            for seen in store.crowded() {
                let (decisions, why) = (seen.decisions, reason(seen.crowded));
                match self.limits.get_mut(&seen.limit) {
                    Some(entry) if decisions > entry.decisions => {
                        (entry.decisions, entry.why, entry.last) = (decisions, why, now);
                        if now - entry.logged >= AGAIN {
                            entry.logged = now;
                            log(&seen.limit, decisions, why);
                        }
                    }
                    Some(_) => {}
                    None => {
                        log(&seen.limit, decisions, why);
                        news.push((State::Warning, sentence(&seen.limit, why)));
                        let entry = CrowdedNow {
                            decisions,
                            why,
                            last: now,
                            logged: now,
                        };
                        self.limits.insert(seen.limit, entry);
                    }
                }
            }
        }
        self.limits.retain(|limit, entry| {
            let is_crowded = now - entry.last < AGAIN;
            if !is_crowded {
                tracing::info!(%limit, "new keys of a limit have budgets of their own again");
                let text =
                    format!("New keys of the limit {limit} have budgets of their own again.");
                news.push((State::Ok, text));
            }
            is_crowded
        });
        news
    }

    /// Returns a sentence for each limit without room.
    pub(super) fn reasons(&self) -> impl Iterator<Item = String> {
        let limits = self.limits.iter();
        limits.map(|(limit, entry)| sentence(limit, entry.why))
    }
}

fn log(limit: &str, decisions: u64, why: &str) {
    tracing::warn!(
        %limit,
        decisions,
        "new keys of a limit share one budget: {why}"
    );
}

fn sentence(limit: &str, why: &str) -> String {
    format!("New keys of the limit {limit} share one budget: {why}.")
}

const fn reason(crowded: Crowded) -> &'static str {
    match crowded {
        Crowded::Address => {
            "one address has as many keys of unverified values as it may have in the memory store"
        }
        Crowded::Unverified => {
            "the memory store has as many keys of unverified values as there may be"
        }
        Crowded::Table => "the memory store has no place left for them",
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::{FixedWindow, MAX_WINDOW};
    use tidegate_store::{Charge, Key, Limit, OnFailure};

    use super::*;

    const WHY: &str = "New keys of the limit daily share one budget: the memory store has no place left for them.";

    /// Charges new clients the whole quota of a limit.
    fn charge(store: &MemoryStore, clients: std::ops::Range<u8>) {
        let quota = FixedWindow::new(1, MAX_WINDOW).unwrap();
        let limit = Limit::new("daily", quota, OnFailure::Local);
        for client in clients {
            let key = Key {
                tag: [client; 16],
                rest: [0; 16],
            };
            store.decide(&[Charge {
                limit: &limit,
                key,
                cost: 1,
                origin: None,
            }]);
        }
    }

    #[test]
    fn the_first_shared_decision_is_an_event_and_its_end_another_one() {
        let store = MemoryStore::new(8);
        let mut watch = CrowdedWatch::default();
        let start = Instant::now();
        let look =
            |watch: &mut CrowdedWatch, at| watch.look(&store, start + Duration::from_secs(at));
        charge(&store, 0..8);
        assert_eq!(look(&mut watch, 0), []);
        charge(&store, 8..9);
        assert_eq!(look(&mut watch, 1), [(State::Warning, WHY.to_owned())]);
        // The event comes only once.
        charge(&store, 9..20);
        assert_eq!(look(&mut watch, 50), []);
        assert_eq!(watch.reasons().collect::<Vec<_>>(), [WHY]);
        assert_eq!(look(&mut watch, 109), []);
        let over = "New keys of the limit daily have budgets of their own again.";
        assert_eq!(look(&mut watch, 110), [(State::Ok, over.to_owned())]);
        assert_eq!(watch.reasons().count(), 0);
        charge(&store, 20..21);
        assert_eq!(look(&mut watch, 120), [(State::Warning, WHY.to_owned())]);
    }
}
