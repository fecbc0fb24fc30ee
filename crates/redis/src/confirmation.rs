//! Records whether a server has all `concurrency` holds of this process.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Instant;

use super::breaker::micros;

/// The time until which a server certainly has all `concurrency` holds of this process.
#[derive(Clone, Copy, Debug, Default)]
pub enum Confirmed {
    /// The process has no hold.
    #[default]
    None,
    /// The server has all holds until this time.
    Until(Instant),
    /// A hold may already be missing.
    Never,
}

impl Confirmed {
    /// Adds a hold that does not lapse before `lapse`. `lapse` is `None` if the server has possibly lost the hold, or never had it.
    pub fn add(&mut self, lapse: Option<Instant>) {
        *self = match (*self, lapse) {
            (Self::Never, _) | (_, None) => Self::Never,
            (Self::None, Some(lapse)) => Self::Until(lapse),
            (Self::Until(until), Some(lapse)) => Self::Until(until.min(lapse)),
        };
    }
}

/// The current [`Confirmed`] time, which decisions read without a lock.
#[derive(Debug)]
pub struct Confirmation {
    start: Instant,
    // In us since the start. `u64::MAX` without holds.
    until: AtomicU64,
    // The connection over which all holds were taken or renewed.
    connection: AtomicU64,
}

impl Default for Confirmation {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            until: AtomicU64::new(u64::MAX),
            connection: AtomicU64::new(0),
        }
    }
}

impl Confirmation {
    /// Whether the server at the other end of `connection` certainly has all `concurrency` holds of this process now.
    pub fn holds(&self, connection: u64) -> bool {
        let until = self.until.load(SeqCst);
        until == u64::MAX
            || self.connection.load(SeqCst) == connection && micros(self.start.elapsed()) < until
    }

    fn until(&self, lapse: Option<Instant>) -> u64 {
        lapse.map_or(0, |lapse| {
            micros(lapse.saturating_duration_since(self.start))
        })
    }

    /// Records a hold that was taken over this connection and does not lapse before `lapse`. `lapse` is `None` if the server may not have
    /// the hold.
    pub fn add(&self, lapse: Option<Instant>, connection: u64) {
        if self.until.load(SeqCst) == u64::MAX {
            self.connection.store(connection, SeqCst);
        }
        self.until.fetch_min(self.until(lapse), SeqCst);
    }

    /// Replaces the state after all holds were renewed over this connection.
    pub fn set(&self, confirmed: Confirmed, connection: u64) {
        let until = match confirmed {
            Confirmed::None => u64::MAX,
            Confirmed::Until(lapse) => self.until(Some(lapse)),
            Confirmed::Never => 0,
        };
        self.until.store(0, SeqCst);
        self.connection.store(connection, SeqCst);
        self.until.store(until, SeqCst);
    }
}
