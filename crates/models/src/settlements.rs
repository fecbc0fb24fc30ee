//! Reservations of a cost that is known afterwards: charged, extended, settled.
//!
//! Models `lua/settle.lua`, and what `lua/decide.lua` and `lua/extend.lua` do with a record of `lua/reservations.lua`; and of a
//! gateway `Store::end`, `Store::renew` and `Unanswered` (`crates/store/src/store/holds.rs`, `registry/unanswered.rs`).
//!
//! The limit is a window of two units, which turns every two ticks. A request reserves one unit, and uses none, one or two.

mod promises;

use stateright::{Model, Property};

use crate::network::Network;

const LIMIT: u8 = 2;
const WINDOW: u8 = 2;
/// For how many ticks a record is kept that nobody extends, if its charge counts no longer.
const KEPT: u8 = 1;
/// How many copies of a settlement may be under way.
const COPIES: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// A settlement is sent once, and takes back what it says: up to commit 9d78c51.
    Before,
    /// The same, sent again until it is answered.
    SentAgain,
    /// A settlement is sent again, and does nothing without a record, but an extension adds a missing record, as the
    /// renewal of a place does.
    Added,
    /// A settlement is sent again, and does nothing without a record; an extension extends records that are there.
    Now,
}

#[derive(Clone, Debug)]
struct Settlements {
    protocol: Protocol,
    requests: usize,
    /// Redis may lose its data, or the client may be reset.
    losses: bool,
    /// All gateways may crash.
    crashes: bool,
}

type Request = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    New,
    Asking,
    Held,
    /// It has used so much, and Redis is told so until it answers.
    Ended(u8),
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Reservation {
    phase: Phase,
    /// Redis's record of it: for how long it is kept.
    record: Option<u8>,
    /// It was charged in the window of now.
    is_current: bool,
    /// And that charge is still there: no reset, no loss of data since.
    counts: bool,
    /// It has ended with so much that Redis should be told, and has not heard.
    unheard: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Message {
    Reserve(Request),
    Reserved(Request),
    Refused(Request),
    Extend(Request),
    Settle(Request, u8),
    Settled(Request),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// In Redis.
    count: u8,
    /// What it should be: each charge of this window, settled once by what Redis has heard.
    due: u8,
    /// Ticks until the window turns.
    left: u8,
    reservations: Vec<Reservation>,
    network: Network<Message>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Begin(Request),
    Extend(Request),
    End(Request, u8),
    /// The settlement is sent once more.
    Send(Request),
    /// The gateway waits no longer for a decision.
    TimeOut(Request),
    /// What is settled counts no longer.
    GiveUp(Request),
    Arrive(Message),
    Lose(Message),
    Crash,
    LoseData,
    Tick,
    Next(Request),
}

impl Reservation {
    const NEW: Self = Self {
        phase: Phase::New,
        record: None,
        is_current: false,
        counts: false,
        unheard: None,
    };
}

impl Message {
    const fn request(&self) -> Request {
        match self {
            Self::Reserve(of) | Self::Reserved(of) | Self::Refused(of) => *of,
            Self::Extend(of) | Self::Settle(of, _) | Self::Settled(of) => *of,
        }
    }
}

impl State {
    fn concerns(&self, request: Request) -> bool {
        self.network.has(|message| message.request() == request)
    }

    fn send_settlement(&mut self, request: Request) {
        if let Phase::Ended(used) = self.reservations[request].phase {
            self.network.send(Message::Settle(request, used));
        }
    }
}

impl Settlements {
    fn arrive(&self, state: &mut State, message: Message) {
        let request = message.request();
        let reservation = &mut state.reservations[request];
        match message {
            Message::Reserve(_) => {
                if state.count >= LIMIT {
                    state.network.send(Message::Refused(request));
                    return;
                }
                (state.count, state.due) = (state.count + 1, state.due + 1);
                (reservation.is_current, reservation.counts) = (true, true);
                reservation.record = Some(KEPT);
                state.network.send(Message::Reserved(request));
            }
            Message::Extend(_) => {
                if reservation.record.is_some() || self.protocol == Protocol::Added {
                    reservation.record = Some(KEPT);
                }
            }
            Message::Settle(_, used) => {
                self.settle(state, request, used);
                let is_answer = |known: &Message| *known == Message::Settled(request);
                let waits = matches!(state.reservations[request].phase, Phase::Ended(_));
                if waits && !state.network.has(is_answer) {
                    state.network.send(Message::Settled(request));
                }
            }
            Message::Reserved(_) => reservation.phase = Phase::Held,
            Message::Refused(_) | Message::Settled(_) => reservation.phase = Phase::Over,
        }
    }

    /// The script.
    fn settle(&self, state: &mut State, request: Request, used: u8) {
        let reservation = &mut state.reservations[request];
        // By the receipt: what was charged in another window is not taken back.
        let settled = |count: u8| match used {
            0 if reservation.is_current => count.saturating_sub(1),
            0 => count,
            _ => count + used - 1,
        };
        if reservation.unheard.is_some() {
            state.due = settled(state.due);
        }
        let needs_record = matches!(self.protocol, Protocol::Added | Protocol::Now);
        if reservation.record.is_some() || !needs_record {
            state.count = settled(state.count);
        }
        (reservation.record, reservation.unheard) = (None, None);
    }

    fn request_actions(&self, state: &State, request: Request, actions: &mut Vec<Action>) {
        let is_extending = |message: &Message| *message == Message::Extend(request);
        let reservation = &state.reservations[request];
        match reservation.phase {
            Phase::New => actions.push(Action::Begin(request)),
            Phase::Asking => actions.push(Action::TimeOut(request)),
            Phase::Held => {
                if !state.network.has(is_extending) {
                    actions.push(Action::Extend(request));
                }
                actions.extend((0..=2).map(|used| Action::End(request, used)));
            }
            Phase::Ended(_) => {
                let is_settlement =
                    |message: &Message| matches!(message, Message::Settle(of, _) if *of == request);
                if state.network.count(is_settlement) < COPIES {
                    actions.push(Action::Send(request));
                }
                if !reservation.counts {
                    actions.push(Action::GiveUp(request));
                }
            }
            Phase::Over => {
                if !state.concerns(request) && reservation.record.is_none() && !reservation.counts {
                    actions.push(Action::Next(request));
                }
            }
        }
    }
}

impl Model for Settlements {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            count: 0,
            due: 0,
            left: WINDOW,
            reservations: vec![Reservation::NEW; self.requests],
            network: Network::new(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for message in state.network.each() {
            actions.push(Action::Arrive(message));
            if matches!(
                message,
                Message::Extend(_) | Message::Settle(..) | Message::Settled(_)
            ) {
                actions.push(Action::Lose(message));
            }
        }
        for request in 0..self.requests {
            self.request_actions(state, request, actions);
        }
        if self.crashes {
            actions.push(Action::Crash);
        }
        if self.losses && state.count > 0 {
            actions.push(Action::LoseData);
        }
        // A decision is waited for for a small part of a tick.
        if !state
            .reservations
            .iter()
            .any(|of| of.phase == Phase::Asking)
        {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Begin(request) => {
                next.reservations[request].phase = Phase::Asking;
                next.network.send(Message::Reserve(request));
            }
            Action::Extend(request) => next.network.send(Message::Extend(request)),
            Action::End(request, used) => {
                let reservation = &mut next.reservations[request];
                reservation.phase = Phase::Ended(used);
                // Of a state that was lost nothing is to be settled.
                let is_lost = !reservation.counts && reservation.record.is_none();
                reservation.unheard = (!is_lost).then_some(used);
                next.send_settlement(request);
                if self.protocol == Protocol::Before {
                    next.reservations[request].phase = Phase::Over;
                }
            }
            Action::Send(request) => next.send_settlement(request),
            Action::TimeOut(request) => {
                // A script that finds itself late charges nothing. What it has charged in time stays charged.
                next.network
                    .drop_all(|message| message.request() == request);
                next.reservations[request].phase = Phase::Over;
            }
            Action::GiveUp(request) => next.reservations[request].phase = Phase::Over,
            Action::Arrive(message) => {
                next.network.take(message);
                self.arrive(&mut next, message);
            }
            Action::Lose(message) => next.network.take(message),
            Action::Crash => {
                next.network.drop_all(|message| {
                    matches!(
                        message,
                        Message::Reserve(_)
                            | Message::Reserved(_)
                            | Message::Refused(_)
                            | Message::Settled(_)
                    )
                });
                for (request, reservation) in next.reservations.iter_mut().enumerate() {
                    if reservation.phase != Phase::New {
                        reservation.phase = Phase::Over;
                    }
                    // Nobody says any more what it has come to, unless that is under way.
                    if !next.network.has(|message| message.request() == request) {
                        reservation.unheard = None;
                    }
                }
            }
            Action::LoseData => {
                (next.count, next.due) = (0, 0);
                for reservation in &mut next.reservations {
                    (reservation.counts, reservation.record, reservation.unheard) =
                        (false, None, None);
                }
            }
            Action::Tick => {
                next.left -= 1;
                if next.left == 0 {
                    (next.left, next.count, next.due) = (WINDOW, 0, 0);
                    for reservation in &mut next.reservations {
                        (reservation.is_current, reservation.counts) = (false, false);
                    }
                }
                for reservation in &mut next.reservations {
                    match reservation.record {
                        Some(0) if !reservation.counts => {
                            // Too old: what it has used beyond itself is charged no longer.
                            (reservation.record, reservation.unheard) = (None, None);
                        }
                        Some(kept) => reservation.record = Some(kept.saturating_sub(1)),
                        None => {}
                    }
                }
            }
            Action::Next(request) => next.reservations[request] = Reservation::NEW,
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::properties()
    }
}
