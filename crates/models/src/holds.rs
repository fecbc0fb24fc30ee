//! Holds: a decision takes a hold in one or two slots. Holds are renewed, lapse, get lost, are taken again, and end.
//!
//! Models `lua/holds.lua`, as `lua/decide.lua` and `lua/hold.lua` call it. The modelled parts of a gateway are `Store::renew` and
//! `Store::end` (`crates/store/src/store/holds.rs`), `Unanswered` (`crates/store/src/registry/unanswered.rs`), and `Caller::take`
//! (`crates/store/src/redis/script/caller/cross_slot.rs`).
//!
//! A slot has a limit of one unit. The window of this limit never ends, so that the model shows each charged unit. A request holds one unit
//! in each of its slots, and uses no unit, one or two. Times are ticks from now. A lease is two ticks. All requests of `concurrency` are of
//! one gateway (`Exact::confirmed` in `crates/store/src/redis/exact/holds.rs`).

mod promises;
mod state;

use stateright::{Model, Property};

use crate::network::Network;
use state::{Held, Message, Phase, Request, State};

const LIMIT: u8 = 1;
const LEASE: u8 = 2;
/// The most ends of one request that may be on their way to a slot.
const COPIES: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// An end charges units even if its hold is missing.
    Unnamed,
    /// Renewals have no deadline. So a renewal that arrives after its hold has ended or lapsed creates the hold again.
    NoDeadline,
    /// A hold that lapses is not charged, even under a limit with a cost.
    Freed,
    /// A gateway calls Redis for decisions while a hold of its own may be missing.
    Unconfirmed,
    Now,
}

#[derive(Clone, Debug)]
struct Holds {
    protocol: Protocol,
    /// The slots of each request. The model has two slots, 0 and 1.
    requests: &'static [&'static [usize]],
    /// Whether the limit has a cost. If not, the limit counts running requests.
    charges: bool,
    /// Whether Redis may lose its data.
    losses: bool,
    /// Whether gateways may crash.
    crashes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Begin(Request),
    Renew(Request),
    End(Request, u8),
    Send(Request),
    TimeOut(Request),
    Arrive(Message),
    Lose(Message),
    Crash,
    LoseData,
    Tick,
}

impl Holds {
    /// Charges the reserved units of lapsed holds, as each script does before its own task.
    fn sweep(&self, state: &mut State, slot: usize) {
        for held in &mut state.held {
            if held.lapse[slot] == Some(0) {
                held.lapse[slot] = None;
                held.is_doubtful = true;
                if self.charges && self.protocol != Protocol::Freed {
                    held.charged[slot] += 1;
                }
            }
        }
    }

    fn arrive(&self, state: &mut State, message: Message) {
        let request = message.request();
        match message {
            Message::Take(_, slot) => {
                self.sweep(state, slot);
                if state.used_and_held(slot) >= LIMIT {
                    state.network.send(Message::Refused(request));
                    return;
                }
                let held = &mut state.held[request];
                held.lapse[slot] = Some(LEASE);
                state.network.send(Message::Taken(request));
            }
            Message::Renew(_, slot) => {
                state.held[request].lapse[slot] = Some(LEASE);
                if matches!(
                    state.held[request].phase,
                    Phase::Renewing | Phase::EndedRenewing(_)
                ) {
                    state.answer(Message::Renewed(request));
                }
            }
            Message::End(_, slot, used) => {
                let held = &mut state.held[request];
                let was_held = held.lapse[slot].take().is_some();
                if was_held || self.protocol == Protocol::Unnamed {
                    held.charged[slot] += used;
                }
                held.is_ended[slot] = true;
                let mut slots = self.requests[request].iter();
                if matches!(held.phase, Phase::Ended(_)) && slots.all(|slot| held.is_ended[*slot]) {
                    state.answer(Message::Ended(request));
                }
            }
            Message::Taken(_) | Message::Refused(_) => {
                let slots = self.requests[request].len() as u8;
                let held = &mut state.held[request];
                if held.phase != Phase::Asking {
                    // The request's gateway has crashed, so no process receives the answer.
                    return;
                }
                held.admitted += 1;
                held.is_refused |= matches!(message, Message::Refused(_));
                if held.admitted < slots {
                    return;
                }
                if held.is_refused {
                    self.send_ends(state, request, 0);
                    state.held[request].phase = Phase::Over;
                } else {
                    (held.phase, held.trust) = (Phase::Held, self.trust());
                }
            }
            Message::Renewed(_) => {
                let held = &mut state.held[request];
                held.trust = held.renewed;
                self.renewal_is_over(state, request);
            }
            Message::Ended(_) => state.held[request].phase = Phase::Over,
        }
    }

    fn send_ends(&self, state: &mut State, request: Request, used: u8) {
        for slot in self.requests[request] {
            state.network.send(Message::End(request, *slot, used));
        }
    }

    fn end(&self, state: &mut State, request: Request, used: u8) {
        state.held[request].phase = Phase::Ended(used);
        self.send_ends(state, request, used);
    }

    /// Returns the ticks after a call for which a gateway assumes that Redis has the hold. 0 for a limit with a cost, whose decisions wait
    /// for no renewal.
    const fn trust(&self) -> u8 {
        if self.charges { 0 } else { LEASE }
    }

    /// Whether a hold of a running request may be missing. While it may be missing, its gateway asks Redis for no decision.
    fn is_unconfirmed(&self, state: &State) -> bool {
        let mut held = state.held.iter();
        !self.charges
            && self.protocol != Protocol::Unconfirmed
            && held.any(|held| held.is_running() && held.trust == 0)
    }

    fn renewal_is_over(&self, state: &mut State, request: Request) {
        match state.held[request].phase {
            Phase::EndedRenewing(used) => self.end(state, request, used),
            _ => state.held[request].phase = Phase::Held,
        }
    }
}

impl Model for Holds {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            held: vec![Held::NEW; self.requests.len()],
            network: Network::new(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for message in state.network.each() {
            actions.push(Action::Arrive(message));
            if matches!(
                message,
                Message::Renew(..) | Message::End(..) | Message::Ended(_)
            ) {
                actions.push(Action::Lose(message));
            }
        }
        for (request, held) in state.held.iter().enumerate() {
            match held.phase {
                Phase::New if self.is_unconfirmed(state) => {}
                Phase::New => actions.push(Action::Begin(request)),
                Phase::Held => {
                    // A request with two slots is charged right after its decision, for no more than the held unit.
                    let slots = self.requests[request].len();
                    let most = if self.charges && slots == 1 { 2 } else { 1 };
                    let used = if self.charges { 0..=most } else { 0..=0 };
                    if slots == 1 {
                        actions.push(Action::Renew(request));
                    }
                    actions.extend(used.map(|used| Action::End(request, used)));
                }
                Phase::Renewing => {
                    let used = if self.charges { 1 } else { 0 };
                    actions.extend([Action::TimeOut(request), Action::End(request, used)]);
                }
                Phase::Asking | Phase::EndedRenewing(_) => actions.push(Action::TimeOut(request)),
                Phase::Ended(_) => {
                    let is_end = |message: &Message| matches!(message, Message::End(of, ..) if *of == request);
                    if state.network.count(is_end) < COPIES * self.requests[request].len() {
                        actions.push(Action::Send(request));
                    }
                }
                Phase::Over => {}
            }
        }
        if self.crashes {
            actions.push(Action::Crash);
        }
        if self.losses {
            actions.push(Action::LoseData);
        }
        // No tick passes during a decision, because a gateway waits for the answer only for a small part of a lease.
        if !state.held.iter().any(|held| held.phase == Phase::Asking) {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Begin(request) => {
                next.held[request].phase = Phase::Asking;
                for slot in self.requests[request] {
                    next.network.send(Message::Take(request, *slot));
                }
            }
            Action::Renew(request) => {
                let held = &mut next.held[request];
                (held.phase, held.renewed) = (Phase::Renewing, self.trust());
                let slot = self.requests[request][0];
                next.network.send(Message::Renew(request, slot));
            }
            Action::End(request, used) => match next.held[request].phase {
                Phase::Renewing => next.held[request].phase = Phase::EndedRenewing(used),
                _ => self.end(&mut next, request, used),
            },
            Action::Send(request) => {
                if let Phase::Ended(used) = next.held[request].phase {
                    self.send_ends(&mut next, request, used);
                }
            }
            Action::TimeOut(request) => {
                // A script takes no hold after its deadline, so the messages of this request are dropped.
                next.network.drop_all(|message| match message {
                    Message::Renew(of, _) => {
                        *of == request && self.protocol != Protocol::NoDeadline
                    }
                    Message::End(..) => false,
                    _ => message.request() == request,
                });
                if next.held[request].phase == Phase::Asking {
                    self.send_ends(&mut next, request, 0);
                    next.held[request].phase = Phase::Over;
                } else {
                    self.renewal_is_over(&mut next, request);
                }
            }
            Action::Arrive(message) => {
                next.network.take(message);
                self.arrive(&mut next, message);
            }
            Action::Lose(message) => next.network.take(message),
            Action::Crash => {
                next.network.drop_all(|message| {
                    !matches!(
                        message,
                        Message::Take(..) | Message::End(..) | Message::Renew(..)
                    )
                });
                for held in &mut next.held {
                    if held.phase != Phase::New {
                        (held.phase, held.is_doubtful) = (Phase::Over, true);
                    }
                }
            }
            Action::LoseData => {
                // The loss also ends all connections: calls under way do not run, and get no answer. Ends are sent again.
                if !self.charges {
                    next.network
                        .drop_all(|message| !matches!(message, Message::End(..)));
                }
                for held in &mut next.held {
                    let is_lost = held.charged != [0; 2] || held.lapse != [None; 2];
                    held.is_doubtful |= is_lost;
                    (held.lapse, held.charged) = ([None; 2], [0; 2]);
                    (held.trust, held.renewed) = (0, 0);
                }
            }
            Action::Tick => {
                // Deadlines are shorter than a tick, so a call with a deadline that has not arrived does not run.
                next.network.drop_all(|message| match message {
                    Message::Take(..) => true,
                    Message::Renew(..) => self.protocol != Protocol::NoDeadline,
                    _ => false,
                });
                for held in &mut next.held {
                    let times = [&mut held.trust, &mut held.renewed];
                    for ticks in held.lapse.iter_mut().flatten().chain(times) {
                        *ticks = ticks.saturating_sub(1);
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
