//! One request over two slots: charged slot by slot, given back by receipt.
//!
//! Models `Caller::decide_split` and `Charged` (`crates/store/src/redis/split.rs`), with `lua/decide.lua` and
//! `lua/give_back.lua`, for window counters. A check before that charges nothing and is left out: it only refuses earlier.
//!
//! The first slot has a limit that all clients share, and the second one a limit for each client. All windows turn at one time.

mod promises;

use stateright::{Model, Property};

use crate::network::Network;

/// A limit of all, and of each of two clients.
const LIMITS: [u8; 3] = [2, 1, 1];

#[derive(Clone, Debug)]
struct Split {
    /// The client of each request.
    requests: &'static [usize],
    /// A give-back may be lost, and a decision may be without an answer.
    losses: bool,
    /// A give-back may run twice: it is never sent twice.
    doubles: bool,
}

type Request = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    New,
    First,
    Second,
    Admitted,
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Message {
    Decide(Request, usize),
    Charged(Request, usize),
    Refused(Request),
    /// With the receipt: whether the charge is one of the window of now.
    GiveBack(Request, usize, bool),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// In Redis, by key.
    counts: [u8; 3],
    /// Requests, and the charges of this window that each has in Redis.
    phases: Vec<Phase>,
    charged: Vec<[bool; 3]>,
    /// Whether the first charge of a request is one of this window.
    is_current: Vec<bool>,
    network: Network<Message>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Begin(Request),
    Arrive(Message),
    ArriveTwice(Message),
    Lose(Message),
    TimeOut(Request),
    Turn,
}

impl Split {
    const fn second(&self, request: Request) -> usize {
        1 + self.requests[request]
    }

    fn arrive(&self, state: &mut State, message: Message) {
        match message {
            Message::Decide(request, key) => {
                if state.counts[key] >= LIMITS[key] {
                    state.network.send(Message::Refused(request));
                } else {
                    state.counts[key] += 1;
                    state.charged[request][key] = true;
                    state.is_current[request] |= key == 0;
                    state.network.send(Message::Charged(request, key));
                }
            }
            Message::Charged(request, 0) => {
                state.phases[request] = Phase::Second;
                let second = self.second(request);
                state.network.send(Message::Decide(request, second));
            }
            Message::Charged(request, _) => state.phases[request] = Phase::Admitted,
            Message::Refused(request) => self.refuse(state, request),
            Message::GiveBack(request, key, is_current) => {
                if is_current {
                    state.counts[key] = state.counts[key].saturating_sub(1);
                    state.charged[request][key] = false;
                }
            }
        }
    }

    /// What is known to be charged is given back.
    fn refuse(&self, state: &mut State, request: Request) {
        if state.phases[request] == Phase::Second {
            let receipt = state.is_current[request];
            state.network.send(Message::GiveBack(request, 0, receipt));
        }
        state.phases[request] = Phase::Refused;
    }
}

impl Model for Split {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let count = self.requests.len();
        vec![State {
            counts: [0; 3],
            phases: vec![Phase::New; count],
            charged: vec![[false; 3]; count],
            is_current: vec![false; count],
            network: Network::new(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for message in state.network.each() {
            actions.push(Action::Arrive(message));
            if let Message::GiveBack(..) = message {
                if self.losses {
                    actions.push(Action::Lose(message));
                }
                if self.doubles {
                    actions.push(Action::ArriveTwice(message));
                }
            }
        }
        for (request, phase) in state.phases.iter().enumerate() {
            match phase {
                Phase::New => actions.push(Action::Begin(request)),
                Phase::First | Phase::Second if self.losses => {
                    actions.push(Action::TimeOut(request));
                }
                _ => {}
            }
        }
        actions.push(Action::Turn);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Begin(request) => {
                next.phases[request] = Phase::First;
                next.network.send(Message::Decide(request, 0));
            }
            Action::Arrive(message) => {
                next.network.take(message);
                self.arrive(&mut next, message);
            }
            Action::ArriveTwice(message) => self.arrive(&mut next, message),
            Action::Lose(message) => next.network.take(message),
            Action::TimeOut(request) => {
                // A script that finds itself late charges nothing, but what it has charged in time stays.
                next.network.drop_all(|message| match message {
                    Message::Decide(of, _) | Message::Charged(of, _) | Message::Refused(of) => {
                        *of == request
                    }
                    Message::GiveBack(..) => false,
                });
                self.refuse(&mut next, request);
            }
            Action::Turn => {
                next.counts = [0; 3];
                next.charged.fill([false; 3]);
                next.is_current.fill(false);
                next.network.change(|message| {
                    if let Message::GiveBack(.., is_current) = message {
                        *is_current = false;
                    }
                });
                // The next requests; one that is under way goes on, and is of the window in which it is charged first.
                for (request, phase) in next.phases.iter_mut().enumerate() {
                    let is_over = matches!(phase, Phase::Admitted | Phase::Refused);
                    let is_named = |message: &Message| matches!(message, Message::GiveBack(of, ..) if *of == request);
                    if is_over && !next.network.has(is_named) {
                        *phase = Phase::New;
                    }
                }
            }
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::properties()
    }
}
