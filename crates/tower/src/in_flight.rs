//! What an admitted request holds until it has ended, and how it is settled: by its answer, if it comes to that.

use std::sync::Arc;
use std::time::Duration;

use http::Response;
use tidegate_store::{Holds, Limit};

use crate::Rule;
use crate::transmission::Transmission;

/// In the extensions of an answer: the upstream gave none, and this one stands in its place.
#[derive(Clone, Copy, Debug)]
pub struct Unanswered {
    /// Whether parts of the request were sent to the upstream. Then what was reserved stays charged: the upstream may have
    /// done what was asked. Otherwise it is given back.
    pub forwarded: bool,
}

/// The places that a request holds, in its answer's extensions. Whoever serves the answer keeps this until its body has
/// ended; when the last clone is dropped, the places are free again.
#[derive(Clone, Debug)]
pub struct InFlight {
    _holds: Arc<Holds>,
}

/// A settled reservation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled<'a> {
    pub(crate) limit: &'a Limit,
    /// The units that were charged until now.
    pub(crate) reserved: u64,
    /// The units that stay charged.
    pub(crate) used: u64,
}

/// What a request holds of which nobody knows yet how it ends.
#[derive(Debug)]
pub(crate) struct Reservation {
    holds: Option<Holds>,
    rules: Arc<[Rule]>,
    transmission: Transmission,
}

impl Reservation {
    pub(crate) fn new(holds: Holds, rules: Arc<[Rule]>) -> Self {
        Self {
            holds: Some(holds),
            rules,
            transmission: Transmission::default(),
        }
    }

    /// Whether the request was forwarded.
    pub(crate) const fn transmission(&self) -> &Transmission {
        &self.transmission
    }

    /// Settles it by the answer's head; `noted` is told of each reservation.
    pub(crate) fn settle<B>(
        mut self,
        answer: &Response<B>,
        mut noted: impl FnMut(Settled<'_>),
    ) -> Option<InFlight> {
        let mut holds = self.holds.take()?;
        holds.settle(|limit, reserved| {
            let used = used(&self.rules, limit, answer).unwrap_or(reserved);
            noted(Settled {
                limit,
                reserved,
                used,
            });
            used
        });
        Some(InFlight {
            _holds: Arc::new(holds),
        })
    }

    /// Nobody waits for the answer. Reservations stay charged, and places are held for `time`.
    pub(crate) fn keep(mut self, time: Duration) {
        if let Some(mut holds) = self.holds.take() {
            holds.settle(|_, reserved| reserved);
            holds.keep(time);
        }
    }
}

impl Drop for Reservation {
    /// The request has ended without an answer. What it reserved stays charged if it was forwarded.
    fn drop(&mut self) {
        if let Some(mut holds) = self.holds.take() {
            let forwarded = self.transmission.is_sent();
            holds.settle(|_, reserved| if forwarded { reserved } else { 0 });
        }
    }
}

/// What a request has come to under a limit; none: what was reserved.
fn used<B>(rules: &[Rule], limit: &Limit, answer: &Response<B>) -> Option<u64> {
    if let Some(unanswered) = answer.extensions().get::<Unanswered>() {
        return (!unanswered.forwarded).then_some(0);
    }
    let rule = rules
        .iter()
        .find(|rule| rule.limit.name() == limit.name())?;
    match &rule.count {
        None => rule.cost.told_by(answer.headers()),
        Some(statuses) => {
            let counts = statuses.contains(&answer.status());
            (!counts).then_some(0)
        }
    }
}
