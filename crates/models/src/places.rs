//! Places of `concurrency`: taken, renewed, lapsed, lost, taken again, given back.
//!
//! Models `places.hold` and `places.give_back` of `lua/places.lua`, as `lua/concurrency.lua`, `lua/renew.lua` and
//! `lua/give_back.lua` call them; and of a gateway `Store::renew`, `Store::end` and `Registry`
//! (`crates/store/src/store/holds.rs`, `registry.rs`).
//!
//! Times are ticks from now. A lease is two ticks. A gateway that pauses is one that does nothing while the clock ticks.

mod promises;
mod state;

use stateright::{Model, Property};

use crate::network::Network;
use state::{Hold, Message, Phase, Place, Request, State};

const LEASE: u8 = 2;
/// How often a request is renewed where calls are numbered.
const RENEWALS: u8 = 2;

/// By what a place is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// By the time at which it lapses, as up to commit 9d78c51. What is not there is not renewed.
    Before,
    /// By an ID. A renewal takes a lost place again, however late it is.
    NoDeadline,
    /// The same, but a renewal does nothing once its gateway waits no longer.
    Now,
}

#[derive(Clone, Debug)]
struct Places {
    protocol: Protocol,
    limit: usize,
    /// The gateway of each request.
    requests: &'static [usize],
    /// Give-backs may run twice.
    doubles: bool,
    /// Redis may start without its data, and clients may be reset.
    losses: bool,
    resets: bool,
    /// Gateways may crash.
    crashes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Begin(Request),
    Renew(Request),
    End(Request),
    /// A gateway waits no longer.
    TimeOut(Request),
    Arrive(Message),
    ArriveTwice(Message),
    Lose(Message),
    Crash(usize),
    LoseData,
    Reset,
    Tick,
    /// The request after this one.
    Next(Request),
}

impl Places {
    /// Runs a script, or hands an answer to the gateway that waits for it.
    fn arrive(&self, state: &mut State, message: Message) {
        let request = message.request();
        let phase = state.holds[request].phase;
        match message {
            Message::Take(_) => {
                if state.places.len() >= self.limit {
                    state.answer(Message::Refused(request));
                    return;
                }
                state.is_exceeded |= state.known() >= self.limit;
                let id = if self.protocol == Protocol::Before {
                    0
                } else {
                    request
                };
                state.put(Place { id, lapse: LEASE });
                // Of a gateway that is gone it is a place for nobody, until it lapses.
                if phase == Phase::Asking {
                    state.holds[request].told = LEASE;
                    state.answer(Message::Taken(request, LEASE));
                }
            }
            Message::Renew(_, known, call) => {
                let lapse = self.renew(state, request, known);
                let hold = &mut state.holds[request];
                if hold.is_running() {
                    hold.told = LEASE;
                }
                if hold.waits_for(call) {
                    state.answer(Message::Renewed(request, lapse));
                }
            }
            Message::GiveBack(_, lapse) if self.protocol == Protocol::Before => {
                state.remove(Place { id: 0, lapse });
            }
            Message::GiveBack(..) => {
                state.places.retain(|place| place.id != request);
                state.holds[request].is_given_back = true;
            }
            Message::Taken(_, lapse) => {
                let hold = &mut state.holds[request];
                (hold.phase, hold.lapse) = (Phase::Held, lapse);
            }
            Message::Refused(_) => state.holds[request].end(),
            Message::Renewed(_, lapse) => {
                if lapse > 0 {
                    state.holds[request].lapse = lapse;
                    state.holds[request].is_doubted = false;
                }
                self.renewal_is_over(state, request);
            }
        }
    }

    /// What is said of a place beside its ID.
    const fn known(&self, lapse: u8) -> u8 {
        match self.protocol {
            Protocol::Before => lapse,
            Protocol::NoDeadline | Protocol::Now => 0,
        }
    }

    /// The script: when the place lapses now, or 0.
    fn renew(&self, state: &mut State, request: Request, known: u8) -> u8 {
        if self.protocol == Protocol::Before {
            let found = known > 0
                && state.remove(Place {
                    id: 0,
                    lapse: known,
                });
            if !found {
                return 0;
            }
            state.put(Place {
                id: 0,
                lapse: LEASE,
            });
        } else {
            state.places.retain(|place| place.id != request);
            state.put(Place {
                id: request,
                lapse: LEASE,
            });
        }
        LEASE
    }

    fn renewal_is_over(&self, state: &mut State, request: Request) {
        let hold = &mut state.holds[request];
        if hold.phase == Phase::EndedRenewing {
            self.give_back(state, request);
        } else {
            hold.phase = Phase::Held;
        }
    }

    fn give_back(&self, state: &mut State, request: Request) {
        let known = self.known(state.holds[request].lapse);
        state.network.send(Message::GiveBack(request, known));
        state.holds[request].end();
    }

    /// What a gateway holds may have lapsed, so it asks for no place before it has renewed that.
    fn doubts(&self, state: &State, request: Request) -> bool {
        let same = |other: &Request| self.requests[*other] == self.requests[request];
        let doubted = |hold: &Hold| hold.is_running() && (hold.lapse == 0 || hold.is_doubted);
        let mut own = (0..self.requests.len()).filter(same);
        self.protocol == Protocol::Now && own.any(|other| doubted(&state.holds[other]))
    }

    fn time_out(&self, state: &mut State, request: Request) {
        // A script that finds itself late takes nothing.
        let is_late = |message: &Message| match message {
            Message::Take(of) => *of == request,
            Message::Renew(of, ..) => *of == request && self.protocol == Protocol::Now,
            _ => message.is_answer() && message.request() == request,
        };
        state.network.drop_all(is_late);
        match (state.holds[request].phase, self.protocol) {
            // It may have taken a place.
            (Phase::Asking, Protocol::Now) => self.give_back(state, request),
            (Phase::Asking, _) => state.holds[request].end(),
            _ => self.renewal_is_over(state, request),
        }
    }

    fn request_actions(&self, state: &State, request: Request, actions: &mut Vec<Action>) {
        let hold = &state.holds[request];
        match hold.phase {
            Phase::New if self.doubts(state, request) => {}
            Phase::New => actions.push(Action::Begin(request)),
            Phase::Held => {
                if hold.renewals < RENEWALS {
                    actions.push(Action::Renew(request));
                }
                actions.push(Action::End(request));
            }
            Phase::Renewing => actions.extend([Action::TimeOut(request), Action::End(request)]),
            Phase::Asking | Phase::EndedRenewing => actions.push(Action::TimeOut(request)),
            Phase::Over => {
                let is_known = state.network.has(|message| message.request() == request);
                // No two requests have one ID.
                if !is_known && state.places.iter().all(|place| place.id != request) {
                    actions.push(Action::Next(request));
                }
            }
        }
    }
}

impl Model for Places {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            places: Vec::new(),
            holds: vec![Hold::NEW; self.requests.len()],
            network: Network::new(),
            is_exceeded: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for message in state.network.each() {
            actions.push(Action::Arrive(message));
            if matches!(message, Message::Renew(..) | Message::GiveBack(..)) {
                // A decision that is lost, and an answer, is one that is not waited for.
                actions.push(Action::Lose(message));
                if self.doubles && matches!(message, Message::GiveBack(..)) {
                    actions.push(Action::ArriveTwice(message));
                }
            }
        }
        for request in 0..self.requests.len() {
            self.request_actions(state, request, actions);
        }
        let gateways = self.requests.iter().max().map_or(0, |last| last + 1);
        if self.crashes {
            actions.extend((0..gateways).map(Action::Crash));
        }
        if self.losses {
            actions.push(Action::LoseData);
        }
        if self.resets && !state.places.is_empty() {
            actions.push(Action::Reset);
        }
        // A decision is waited for for a small part of a lease.
        if !state.holds.iter().any(|hold| hold.phase == Phase::Asking) {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Begin(request) => {
                next.holds[request].phase = Phase::Asking;
                next.network.send(Message::Take(request));
            }
            Action::Renew(request) => {
                let hold = &mut next.holds[request];
                hold.phase = Phase::Renewing;
                if self.protocol != Protocol::Now {
                    hold.renewals += 1;
                }
                let known = self.known(hold.lapse);
                let call = Message::Renew(request, known, hold.renewals);
                next.network.send(call);
            }
            Action::End(request) if next.holds[request].phase == Phase::Renewing => {
                let hold = &mut next.holds[request];
                (hold.phase, hold.told) = (Phase::EndedRenewing, 0);
            }
            Action::End(request) => self.give_back(&mut next, request),
            Action::TimeOut(request) => self.time_out(&mut next, request),
            Action::Arrive(message) => {
                next.network.take(message);
                self.arrive(&mut next, message);
            }
            Action::ArriveTwice(message) => self.arrive(&mut next, message),
            Action::Lose(message) => next.network.take(message),
            Action::Crash(gateway) => {
                let own = |request: Request| self.requests[request] == gateway;
                let holds = next.holds.iter_mut().enumerate();
                for (_, hold) in holds.filter(|(request, _)| own(*request)) {
                    if hold.phase != Phase::New {
                        hold.end();
                    }
                }
                let unheard = |message: &Message| message.is_answer() && own(message.request());
                next.network.drop_all(unheard);
            }
            Action::LoseData => {
                // With its connections: what was under way is not answered, and not run.
                next.network = Network::new();
                next.forget();
                for hold in &mut next.holds {
                    hold.is_doubted = hold.is_running();
                }
            }
            Action::Reset => next.forget(),
            Action::Tick => {
                for place in &mut next.places {
                    place.lapse -= 1;
                }
                // What has lapsed is dropped by the next script that looks.
                next.places.retain(|place| place.lapse > 0);
                next.network
                    .drop_all(|message| matches!(message, Message::Take(_)));
                next.network.change(Message::tick);
                for hold in &mut next.holds {
                    hold.told = hold.told.saturating_sub(1);
                    hold.lapse = hold.lapse.saturating_sub(1);
                }
            }
            Action::Next(request) => next.holds[request] = Hold::NEW,
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::properties()
    }
}
