//! What gateways and Redis know of places, and what they say to each other.

use crate::network::Network;

pub(super) type Request = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    New,
    Asking,
    Held,
    Renewing,
    /// It ended while it was being renewed: it is given back when that is over.
    EndedRenewing,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hold {
    pub(super) phase: Phase,
    /// How long it lasts as the gateway knows: since it sent the last call that was answered.
    pub(super) lapse: u8,
    pub(super) renewals: u8,
    /// How long the place must last that Redis was told of.
    pub(super) told: u8,
    /// Redis has started since, and may have lost it: the gateway sees that by its connection.
    pub(super) is_doubted: bool,
    pub(super) is_given_back: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    /// 0 where places have no ID.
    pub(super) id: Request,
    pub(super) lapse: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Message {
    Take(Request),
    Taken(Request, u8),
    Refused(Request),
    /// When the place lapses as far as the gateway knows, and the number of the call.
    Renew(Request, u8, u8),
    /// When it lapses now; 0: it was not there.
    Renewed(Request, u8),
    GiveBack(Request, u8),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    /// In Redis, sorted.
    pub(super) places: Vec<Place>,
    pub(super) holds: Vec<Hold>,
    pub(super) network: Network<Message>,
    /// A request was admitted though Redis had been told of as many as the limit within the last lease.
    pub(super) is_exceeded: bool,
}

impl Hold {
    pub(super) const NEW: Self = Self {
        phase: Phase::New,
        lapse: 0,
        renewals: 0,
        told: 0,
        is_doubted: false,
        is_given_back: false,
    };

    pub(super) const fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Held | Phase::Renewing)
    }

    /// Nobody hears the answer to a call that is not waited for any more.
    pub(super) const fn waits_for(&self, call: u8) -> bool {
        matches!(self.phase, Phase::Renewing | Phase::EndedRenewing) && self.renewals == call
    }

    pub(super) fn end(&mut self) {
        *self = Self {
            phase: Phase::Over,
            ..Self::NEW
        };
    }
}

impl Message {
    pub(super) const fn request(&self) -> Request {
        match self {
            Self::Take(of) | Self::Taken(of, _) | Self::Refused(of) => *of,
            Self::Renew(of, ..) | Self::Renewed(of, _) | Self::GiveBack(of, _) => *of,
        }
    }

    pub(super) const fn is_answer(&self) -> bool {
        matches!(self, Self::Taken(..) | Self::Refused(_) | Self::Renewed(..))
    }

    pub(super) const fn tick(&mut self) {
        match self {
            Self::Taken(_, lapse)
            | Self::Renew(_, lapse, _)
            | Self::Renewed(_, lapse)
            | Self::GiveBack(_, lapse) => *lapse = lapse.saturating_sub(1),
            Self::Take(_) | Self::Refused(_) => {}
        }
    }
}

impl State {
    /// Requests that Redis was told of within the last lease.
    pub(super) fn known(&self) -> usize {
        let is_known = |hold: &&Hold| hold.told > 0;
        self.holds.iter().filter(is_known).count()
    }

    pub(super) fn forget(&mut self) {
        self.places.clear();
        self.holds.iter_mut().for_each(|hold| hold.told = 0);
    }

    pub(super) fn put(&mut self, place: Place) {
        let at = self.places.partition_point(|known| *known < place);
        self.places.insert(at, place);
    }

    pub(super) fn remove(&mut self, place: Place) -> bool {
        let found = self.places.binary_search(&place);
        found.is_ok_and(|at| self.places.remove(at) == place)
    }

    pub(super) fn answer(&mut self, message: Message) {
        let is_same = |known: &Message| known.is_answer() && known.request() == message.request();
        if !self.network.has(is_same) {
            self.network.send(message);
        }
    }
}
