//! Leases: slices of a budget are lent, spent, settled and returned, or lapse.
//!
//! Models `lua/lease.lua`. The modelled parts of a gateway are `Slice` (`crates/store/src/redis/leased/slice.rs`), the calls of
//! `crates/store/src/redis/leased/slices.rs`, and `Lender::ask` (`crates/store/src/redis/leased/lender.rs`).
//!
//! The limit has a few units, and used units never become free. Times are ticks from now. A slice lapses two ticks after the last call. A
//! gateway times out after a small part of a tick, but its call may run long after this timeout.

mod promises;

use stateright::{Model, Property};

use crate::network::Network;

const LIMIT: u8 = 3;
const TERM: u8 = 2;
/// The size of a slice for a key in demand, in units.
const WANTED: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// The record of a slice is deleted when the slice is returned. In use up to commit 9d78c51.
    Before,
    /// The record of a returned slice is kept until the slice would have lapsed.
    Returned,
    /// Like `Returned`, but the record is also kept if the gateway sent its units again to a Redis that had lost its data.
    Now,
}

#[derive(Clone, Debug)]
struct Leases {
    protocol: Protocol,
    gateways: usize,
    /// The number of calls that each gateway makes.
    calls: u8,
    /// Whether calls may run twice, and may run after their gateways have timed out.
    late: bool,
    crashes: bool,
    losses: bool,
}

/// Models `Ask` of `crates/store/src/redis/leased/lender.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Ask {
    call: u8,
    cost: u8,
    spent: u8,
    unsettled: u8,
    kept: u8,
    /// The time at which the slice lapses, by the gateway's own record.
    lapse: u8,
    wanted: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Message {
    Ask(usize, Ask),
    /// The answer to a gateway: the size of its slice.
    Lent(usize, u8),
}

/// Models `Slice` of `crates/store/src/redis/leased/slice.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Slice {
    is_alive: bool,
    calls: u8,
    spent: u8,
    settled: u8,
    allowance: u8,
    lapse: u8,
    call: Option<Ask>,
    /// The spent units that Redis has charged.
    charged: u8,
}

/// The record of one gateway's slice: a field of the Redis hash that stores the slices of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Record {
    call: u8,
    settled: u8,
    out: u8,
    lapse: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// The used units in Redis.
    used: u8,
    records: Vec<Option<Record>>,
    slices: Vec<Slice>,
    network: Network<Message>,
    /// The units that Redis should have charged, by the calls that it ran.
    due: u8,
    /// All admitted units: units that gateways spent, and requests that Redis charged.
    admitted: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Spend(usize),
    /// A request finds an empty slice. The call asks for a slice of this size.
    Request(usize, u8),
    /// The gateway makes a call without a request, because spent units are unsettled, or few units are left.
    Settle(usize),
    /// The gateway returns all unspent units.
    End(usize),
    /// The gateway has timed out.
    TimeOut(usize),
    Arrive(Message),
    ArriveTwice(Message),
    Crash(usize),
    LoseData,
    Tick,
}

impl Slice {
    const NEW: Self = Self {
        is_alive: true,
        calls: 0,
        spent: 0,
        settled: 0,
        allowance: 0,
        lapse: 0,
        call: None,
        charged: 0,
    };

    const fn rest(&self) -> u8 {
        if self.lapse > 0 && self.is_alive {
            self.allowance.saturating_sub(self.spent)
        } else {
            0
        }
    }

    /// Begins a call. Until an answer comes, the gateway may spend only `kept` more units.
    fn ask(&mut self, cost: u8, kept: u8, wanted: u8) -> Ask {
        self.allowance = self.spent + kept;
        self.calls += 1;
        let ask = Ask {
            call: self.calls,
            cost,
            spent: self.spent,
            unsettled: self.spent - self.settled,
            kept,
            lapse: self.lapse,
            wanted,
        };
        self.call = Some(ask);
        ask
    }
}

impl Message {
    const fn gateway(&self) -> usize {
        match self {
            Self::Ask(gateway, _) | Self::Lent(gateway, _) => *gateway,
        }
    }
}

impl Leases {
    /// Runs `lua/lease.lua`. Returns the size of the slice. `None` if a later call has run before.
    fn run(&self, state: &mut State, id: usize, ask: Ask) -> Option<u8> {
        let own = state.records[id];
        if own.is_some_and(|own| ask.call <= own.call) {
            return None;
        }
        let (mut lent, mut holders) = (0, 1);
        for holder in 0..self.gateways {
            let Some(record) = state.records[holder] else {
                continue;
            };
            if record.lapse == 0 {
                // The slice has lapsed. Redis has no count of its spent units, so all its units are charged.
                state.used += record.out;
                state.due += record.out;
                state.slices[holder].charged = state.slices[holder].spent;
                state.records[holder] = None;
            } else if holder != id {
                lent += record.out;
                holders += u8::from(record.out > 0 || self.protocol == Protocol::Before);
            }
        }
        let own = state.records[id];
        let (mut out, mut newly) = (0, 0);
        if let Some(own) = own {
            newly = ask.spent.saturating_sub(own.settled);
            out = ask.kept.min(own.out.saturating_sub(newly));
        } else if ask.lapse > 0 {
            newly = ask.unsettled;
        }
        let slice = &mut state.slices[id];
        if own.is_some() || ask.lapse > 0 {
            state.due += ask.spent.saturating_sub(slice.charged);
        }
        // If Redis has lost the record and the slice has lapsed, the slice's units are too old to be charged.
        slice.charged = ask.spent.max(slice.charged);
        state.used += newly;
        let mut left = LIMIT.saturating_sub(state.used + lent + out);
        if ask.cost <= left {
            state.used += ask.cost;
            state.due += ask.cost;
            state.admitted += ask.cost;
            left -= ask.cost;
            let share = left.div_ceil(holders + 1).max(ask.wanted.div_ceil(2));
            out += ask.wanted.saturating_sub(out).min(share).min(left);
        }
        let previous = match self.protocol {
            Protocol::Before => None,
            Protocol::Returned => own.map(|own| own.lapse),
            Protocol::Now => own.map(|own| own.lapse).or(Some(ask.lapse)),
        };
        let lapse = if out > 0 || ask.wanted > 0 {
            Some(TERM)
        } else {
            previous.filter(|lapse| ask.unsettled > 0 && *lapse > 0)
        };
        state.records[id] = lapse.map(|lapse| Record {
            call: ask.call,
            settled: ask.spent,
            out,
            lapse,
        });
        Some(out)
    }

    fn arrive(&self, state: &mut State, message: Message) {
        match message {
            Message::Ask(id, ask) => {
                let lent = self.run(state, id, ask);
                let answers =
                    |message: &Message| matches!(message, Message::Lent(of, _) if *of == id);
                let is_awaited = state.slices[id].call == Some(ask);
                if let Some(out) = lent
                    && is_awaited
                    && !state.network.has(answers)
                {
                    state.network.send(Message::Lent(id, out));
                }
            }
            Message::Lent(id, out) => {
                let slice = &mut state.slices[id];
                if let Some(ask) = slice.call.take() {
                    slice.settled = ask.spent;
                    (slice.allowance, slice.lapse) = (ask.spent + out, TERM);
                }
            }
        }
    }

    fn gateway_actions(&self, slice: &Slice, id: usize, actions: &mut Vec<Action>) {
        if !slice.is_alive {
            return;
        }
        if self.crashes {
            actions.push(Action::Crash(id));
        }
        if slice.rest() > 0 {
            actions.push(Action::Spend(id));
        }
        if slice.call.is_some() {
            actions.push(Action::TimeOut(id));
        } else if slice.calls < self.calls {
            if slice.rest() == 0 {
                actions.extend([Action::Request(id, 0), Action::Request(id, WANTED)]);
            }
            if slice.allowance.max(slice.spent) > slice.settled && slice.lapse > 0 {
                actions.extend([Action::Settle(id), Action::End(id)]);
            }
        }
    }
}

impl Model for Leases {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            used: 0,
            records: vec![None; self.gateways],
            slices: vec![Slice::NEW; self.gateways],
            network: Network::new(),
            due: 0,
            admitted: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for message in state.network.each() {
            // A message is lost if its gateway times out before the message arrives.
            actions.push(Action::Arrive(message));
            if self.late && matches!(message, Message::Ask(..)) {
                actions.push(Action::ArriveTwice(message));
            }
        }
        for (id, slice) in state.slices.iter().enumerate() {
            self.gateway_actions(slice, id, actions);
        }
        if self.losses && state.used > 0 {
            actions.push(Action::LoseData);
        }
        if state.slices.iter().all(|slice| slice.call.is_none()) {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        let mut ask = |id: usize, cost: u8, kept: u8, wanted: u8| {
            let ask = next.slices[id].ask(cost, kept, wanted);
            next.network.send(Message::Ask(id, ask));
        };
        match action {
            Action::Spend(id) => {
                next.slices[id].spent += 1;
                next.admitted += 1;
            }
            Action::Request(id, wanted) => ask(id, 1, 0, wanted),
            Action::Settle(id) => ask(id, 0, state.slices[id].rest(), WANTED),
            Action::End(id) => ask(id, 0, 0, 0),
            Action::TimeOut(id) => {
                next.slices[id].call = None;
                // After its gateway's deadline, a script has no effect.
                next.network.drop_all(|message| {
                    message.gateway() == id && (!self.late || matches!(message, Message::Lent(..)))
                });
            }
            Action::Arrive(message) => {
                next.network.take(message);
                self.arrive(&mut next, message);
            }
            Action::ArriveTwice(message) => self.arrive(&mut next, message),
            Action::Crash(id) => {
                next.slices[id].is_alive = false;
                next.slices[id].call = None;
                next.network
                    .drop_all(|message| matches!(message, Message::Lent(of, _) if *of == id));
            }
            Action::LoseData => {
                (next.used, next.due) = (0, 0);
                next.records.fill(None);
                // The loss also ends all connections, so no message under way arrives.
                next.network = Network::new();
                for slice in &mut next.slices {
                    slice.charged = slice.settled;
                }
            }
            Action::Tick => {
                for record in next.records.iter_mut().flatten() {
                    record.lapse = record.lapse.saturating_sub(1);
                }
                for slice in &mut next.slices {
                    slice.lapse = slice.lapse.saturating_sub(1);
                }
                next.network.change(|message| {
                    if let Message::Ask(_, ask) = message {
                        ask.lapse = ask.lapse.saturating_sub(1);
                    }
                });
            }
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::properties()
    }
}
