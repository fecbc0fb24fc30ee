//! Receipts: units that checks have set aside, until the asking program settles them.
//!
//! A receipt names the gateway that gave it, because this gateway renews the holds. The rest of the receipt is random, so callers cannot guess
//! it. When the time of a receipt is over, its reserved units are charged.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tidegate_tower::HeldUnits;
use tokio::time::Instant;

use super::places::{Place, Places};

/// The receipts of this gateway.
#[derive(Debug)]
pub(crate) struct Receipts {
    /// The gateway's part of its receipts: 16 hexadecimal digits.
    gateway: String,
    places: Places,
    open: Mutex<HashMap<u128, Open>>,
}

#[derive(Debug)]
struct Open {
    held: HeldUnits,
    until: Instant,
    _place: Place,
}

/// The reason why a receipt cannot be settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoReceipt {
    /// The receipt was settled before, its time is over, or no gateway gave it.
    Unknown,
    /// Another gateway gave the receipt.
    OtherGateway,
}

impl Receipts {
    /// Makes no receipt yet. `open` shows the number of open receipts. Fails if the system gives no random numbers.
    pub(crate) fn new(open: Gauge) -> Result<Self, Unspecified> {
        let mut gateway = [0; 8];
        rand::fill(&mut gateway)?;
        Ok(Self {
            gateway: format!("{:016x}", u64::from_be_bytes(gateway)),
            places: Places::new(open),
            open: Mutex::default(),
        })
    }

    /// Takes a place for a receipt of a caller at this address. `None` if the address may not have another receipt.
    pub(super) fn place(&self, caller: IpAddr) -> Option<Place> {
        self.places.take(caller)
    }

    /// Keeps held units for the time `hold`, and returns their receipt. `None` if the system gives no random numbers; the reserved units are
    /// charged then.
    pub(super) fn keep(&self, held: HeldUnits, hold: Duration, place: Place) -> Option<String> {
        let mut random = [0; 16];
        rand::fill(&mut random).ok()?;
        let id = u128::from_be_bytes(random);
        let until = Instant::now() + hold;
        let open = Open {
            held,
            until,
            _place: place,
        };
        self.open.lock().insert(id, open);
        Some(format!("{}-{id:032x}", self.gateway))
    }

    /// Settles the units of a receipt. Each receipt can be settled once.
    pub(super) fn settle(&self, receipt: &str, cost: Option<u64>) -> Result<(), NoReceipt> {
        let (gateway, id) = receipt.split_once('-').ok_or(NoReceipt::Unknown)?;
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let has_form = gateway.len() == 16 && id.len() == 32 && id.bytes().all(is_digit);
        let id = u128::from_str_radix(id, 16).ok().filter(|_| has_form);
        let id = id.ok_or(NoReceipt::Unknown)?;
        if gateway != self.gateway {
            return Err(NoReceipt::OtherGateway);
        }
        let open = self.open.lock().remove(&id).ok_or(NoReceipt::Unknown)?;
        if open.until <= Instant::now() {
            // The drop charges the reserved units.
            return Err(NoReceipt::Unknown);
        }
        open.held.settle(cost);
        Ok(())
    }

    /// Ends receipts whose time is over.
    pub(crate) fn end_late(&self) {
        let now = Instant::now();
        let late: Vec<_> = {
            let mut open = self.open.lock();
            open.extract_if(|_, open| open.until <= now).collect()
        };
        drop(late);
    }

    /// Ends all receipts: the gateway stops, and their reserved units are charged.
    pub(crate) fn end_all(&self) {
        let open = std::mem::take(&mut *self.open.lock());
        drop(open);
    }
}
