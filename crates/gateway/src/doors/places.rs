//! Places for decisions that hold units. The addresses of callers share the places.

use std::net::IpAddr;
use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;
use tidegate_tower::{Permit, Shares};

/// The most decisions of one door that hold units. One address gets a quarter of the places at most.
const MOST: usize = 200_000;

/// The places of one door.
#[derive(Debug)]
pub(super) struct Places {
    shares: Arc<Shares>,
    taken: Gauge,
}

/// A place that is taken until this value is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _permit: Permit,
    taken: Gauge,
}

impl Places {
    /// Makes places. `taken` shows the number of the taken places.
    pub(super) fn new(taken: Gauge) -> Self {
        Self {
            shares: Shares::new(MOST),
            taken,
        }
    }

    /// Takes a place for a caller at this address. `None` if the address may not have another place.
    pub(super) fn take(&self, address: IpAddr) -> Option<Place> {
        let permit = self.shares.take(address.to_canonical(), 1)?;
        self.taken.inc();
        Some(Place {
            _permit: permit,
            taken: self.taken.clone(),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.dec();
    }
}
