//! The records of holds in gateways and in Redis, and the messages between them.

use crate::network::Network;

pub(super) type Request = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    New,
    Asking,
    Held,
    Renewing,
    /// The request ended with this cost while its hold was being renewed.
    EndedRenewing(u8),
    /// The end with this cost is sent until Redis answers.
    Ended(u8),
    Over,
}

/// A request, and its records in each slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub(super) phase: Phase,
    /// The number of slots that have answered the decision, whether they admitted or refused the request.
    pub(super) admitted: u8,
    /// Whether a slot refused the request.
    pub(super) is_refused: bool,
    /// The ticks until the request's hold lapses in each slot. `None` if the slot has no hold.
    pub(super) lapse: [Option<u8>; 2],
    /// The units that each slot has charged for the request.
    pub(super) charged: [u8; 2],
    /// Whether a slot may charge the request again or not at all, because its hold lapsed, its data was lost, or its gateway crashed.
    pub(super) is_doubtful: bool,
    /// Whether an end has arrived in each slot.
    pub(super) is_ended: [bool; 2],
    /// The ticks for which the gateway still assumes that Redis has the hold. An answered call sets this number. The loss of the connection
    /// sets it to 0.
    pub(super) trust: u8,
    /// The ticks that `trust` gets if the renewal under way is answered.
    pub(super) renewed: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Message {
    Take(Request, usize),
    Taken(Request),
    Refused(Request),
    Renew(Request, usize),
    Renewed(Request),
    End(Request, usize, u8),
    Ended(Request),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) held: Vec<Held>,
    pub(super) network: Network<Message>,
}

impl Held {
    pub(super) const NEW: Self = Self {
        phase: Phase::New,
        admitted: 0,
        is_refused: false,
        lapse: [None; 2],
        charged: [0; 2],
        is_doubtful: false,
        is_ended: [false; 2],
        trust: 0,
        renewed: 0,
    };

    pub(super) const fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Held | Phase::Renewing)
    }
}

impl Message {
    pub(super) const fn request(&self) -> Request {
        match self {
            Self::Take(of, _) | Self::Taken(of) | Self::Refused(of) | Self::Renew(of, _) => *of,
            Self::Renewed(of) | Self::End(of, ..) | Self::Ended(of) => *of,
        }
    }
}

impl State {
    /// Returns the units that a script counts in a slot.
    pub(super) fn used_and_held(&self, slot: usize) -> u8 {
        let units = |held: &Held| held.charged[slot] + u8::from(held.lapse[slot].is_some());
        self.held.iter().map(units).sum()
    }

    pub(super) fn answer(&mut self, message: Message) {
        if !self.network.has(|other| *other == message) {
            self.network.send(message);
        }
    }
}
