//! What a running request holds: a charge with an ID, so that taking, renewing and giving back can be repeated.

use std::fmt;

use crate::Micros;

/// Names what one request holds, under every key. No two requests of any gateways have the same; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldId(pub u64);

impl fmt::Display for HoldId {
    /// As it stands in Redis, in hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// What one request holds under one key. None of it changes while the request runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Whose it is.
    pub id: HoldId,
    /// How many units.
    pub units: u64,
    /// For how long it was taken, in us. A renewal never makes it last for longer than this from then on.
    pub lease: Micros,
}

/// By what a charge is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// When the charge, and all before it, would have stopped to count: the time of the commit and its verdict's `reset`
    /// together.
    pub until: Micros,
    /// What the request holds, where an algorithm counts holds and no times.
    pub hold: HoldId,
}

impl Receipt {
    /// The receipt of a charge that holds nothing.
    pub const fn timed(until: Micros) -> Self {
        Self {
            until,
            hold: HoldId(0),
        }
    }
}
