//! Positions in the queues of leaky buckets, until their turn comes.
//!
//! A request whose client leaves before has no use for its turn. Only the last in a queue can give its position back. Those behind
//! any other have been told their turns already, so that one goes unused. The algorithm sees to that.

use std::sync::Arc;

use tidegate_core::Micros;

use crate::registry::Home;
use crate::{Charge, Decision, Key, Limit, Outcome, PerCharge, Store};

/// The positions of one request in queues. When it is dropped, its client has left before its turn.
#[derive(Debug)]
pub struct Queued {
    store: Store,
    positions: PerCharge<Position>,
}

#[derive(Debug)]
struct Position {
    limit: Arc<Limit>,
    key: Key,
    cost: u64,
    home: Home,
    receipt: Micros,
}

impl Position {
    fn charge(&self) -> Charge<'_> {
        Charge {
            limit: &self.limit,
            key: self.key,
            cost: self.cost,
            origin: None,
        }
    }
}

impl Queued {
    /// Its turn has come: the positions are used.
    pub fn go_on(mut self) {
        self.positions.clear();
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        for position in self.positions.drain(..) {
            self.store.leave(position);
        }
    }
}

impl Store {
    /// The positions in queues of a request that was admitted by this decision on these limits, keys and costs. They are in the
    /// order of the verdicts. None if there are no positions.
    pub fn queued<'a>(
        &self,
        charged: impl Iterator<Item = (&'a Arc<Limit>, Key, u64)>,
        decision: &Decision,
    ) -> Option<Queued> {
        if decision.outcome != Outcome::Admitted {
            return None;
        }
        let said = decision.verdicts.iter().zip(&decision.sources);
        let positions = charged.zip(said).filter_map(|(charge, (verdict, source))| {
            let (limit, key, cost) = charge;
            let verdict = verdict.filter(|verdict| verdict.allowed)?;
            limit.quota().is_queue().then(|| Position {
                limit: limit.clone(),
                key,
                cost,
                home: self.home(limit, source, decision.via),
                receipt: source.at + verdict.reset,
            })
        });
        let positions: PerCharge<Position> = positions.collect();
        let store = self.clone();
        (!positions.is_empty()).then_some(Queued { store, positions })
    }

    fn leave(&self, position: Position) {
        match (position.home, self) {
            (Home::Here(quota), _) => {
                self.memory().table().give_back(
                    &position.charge(),
                    &quota,
                    position.receipt,
                    crate::now(),
                );
            }
            (Home::Redis, Self::Redis(store)) => {
                let store = store.clone();
                self.go_on(async move {
                    store
                        .exact()
                        .give_back(&position.charge(), position.receipt)
                        .await;
                });
            }
            (Home::Redis, Self::Memory(_)) => {}
        }
    }
}
