//! Overrides as one versioned table. Two scripts write and read the table. Gateways restore entries that Redis has lost.
//!
//! Models `lua/override.lua` and `lua/overrides.lua`. The modelled parts of a gateway are `Overrides::compare`
//! (`crates/overrides/src/keeper/comparing.rs`) and the deadline of a change (`Shards::eval_in_time` in `crates/redis/src/shards.rs`).
//!
//! At the start, Redis, its copy (a replica or a snapshot) and both gateways have one override, which never ends. A change and its answer
//! can be late or lost. A read and its answer are one step. A gateway that is paused or cut off makes no step. The generation is a number
//! in Redis. If it has changed, a gateway compares all entries with Redis.

mod calls;
mod promises;
mod state;

use stateright::{Model, Property};

use crate::network::Network;
use state::{Gateway, Redis, State};

const NAMES: usize = 2;
const GATEWAYS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// Entries that have ended are dropped, and gateways restore all others. In use up to commit 804512ae.
    Old,
    Table,
    /// `Table` without this part.
    Without(Part),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// A change has a deadline.
    Deadline,
    /// The deadline is counted from a lower bound of Redis's clock.
    LowerBound,
    /// Entries that have ended are kept.
    Memory,
    /// A call that has restored entries raises the generation.
    Generation,
    /// A Redis without data gets a new generation with its first change.
    FreshGeneration,
    /// After a comparison, a gateway stores the generation that it read at the beginning of the comparison.
    FirstGeneration,
    /// A gateway compares all entries after it has connected again.
    Connection,
    /// A gateway's own changes do not raise the version up to which it has read.
    ReadVersion,
    /// A new version is above all versions that the writing gateway has received.
    WriterVersion,
    /// A gateway that was away for longer than entries are kept drops entries that Redis lacks.
    Floor,
    /// A gateway compares all entries if it has read only up to a version below the floor.
    FloorCompares,
    /// A page has all entries of its last version.
    WholeVersions,
    /// A gateway makes one call at a time.
    OneCall,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Overrides {
    protocol: Protocol,
    names: usize,
    /// The number of changes that are sent.
    changes: u8,
    /// The tick at which the model ends.
    end: u8,
    /// The number of ticks for which an entry is kept after its end.
    keep: u8,
    /// The number of losses: a replica that is behind takes over, older data are restored, or Redis loses its data.
    losses: u8,
    /// Whether gateways crash and start again.
    crashes: bool,
    /// The number of times that Redis's clock is set back.
    steps: u8,
    /// Whether gateways connect again.
    reconnects: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Change {
    Forever,
    /// An override that ends with the next tick.
    Short,
    Clear,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Waiter {
    Waits,
    /// The change was answered with 503. The number is the count of changes made before this answer.
    Refused(u8),
    Crashed,
}

/// A call of the script that makes a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Write {
    gateway: usize,
    name: usize,
    change: Change,
    deadline: Option<u8>,
    /// The highest version that the gateway had received when it sent the change.
    highest: u8,
    waiter: Waiter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Send(usize, usize, Change),
    Arrive(Write),
    /// The gateway receives the answer to its change.
    Receive(usize),
    /// The gateway answers a pending change with 503.
    Refuse(usize),
    /// The gateway reads newer entries, or begins a comparison.
    Read(usize),
    /// The gateway restores entries, and the comparison is complete.
    GiveBack(usize),
    /// Redis runs the call, and the answer is lost.
    GiveBackUnanswered(usize),
    /// The gateway and Redis drop ended entries, if the protocol does not keep them.
    DropEnded(usize),
    /// Redis drops an entry for its age.
    DropOld(usize),
    Reconnect(usize),
    Crash(usize),
    /// The copy of Redis is updated. The copy is a replica or a snapshot.
    Copy,
    /// The copy takes over, and all connections are new.
    TakeOver,
    /// Redis loses its data, and the connections remain open.
    Wipe,
    Tick,
    SetBack,
}

impl Protocol {
    fn has(self, part: Part) -> bool {
        self != Self::Without(part)
    }
}

impl Overrides {
    /// Makes states equal if they differ only in numbers that no gateway will read.
    fn settle(&self, state: &mut State) {
        if self.renumbers() {
            state.settle_generations();
        }
        if self.keep > self.end && self.protocol.has(Part::Connection) {
            // Without a floor, the read version matters only after a comparison.
            for gateway in state.gateways.iter_mut().filter(|it| !it.is_compared) {
                gateway.read = 0;
            }
        }
    }

    /// Whether generations are replaced by the few values of `state::generation`. A protocol that compares generations across connections
    /// or losses needs the real numbers.
    fn renumbers(&self) -> bool {
        self.protocol.has(Part::FreshGeneration) && self.protocol.has(Part::Connection)
    }

    /// Drops the calls that will change no state, unless the clock can be set back.
    fn drop_late(&self, state: &mut State) {
        if self.steps == 0 {
            state.drop_late();
        }
    }

    fn gateway_actions(&self, state: &State, index: usize, actions: &mut Vec<Action>) {
        let gateway = &state.gateways[index];
        if self.reconnects {
            actions.push(Action::Reconnect(index));
        }
        if self.crashes {
            actions.push(Action::Crash(index));
        }
        if let Some(pending) = gateway.pending {
            if pending.answer.is_some() {
                actions.push(Action::Receive(index));
            }
            if pending.age > 0 {
                actions.push(Action::Refuse(index));
            }
            if self.protocol.has(Part::OneCall) {
                return;
            }
        }
        if gateway.comparison.is_some() {
            actions.extend([Action::GiveBack(index), Action::GiveBackUnanswered(index)]);
            return;
        }
        actions.push(Action::Read(index));
        if self.drops_ended() {
            actions.push(Action::DropEnded(index));
        }
        let is_compared = gateway.is_compared || !self.protocol.has(Part::Connection);
        if gateway.pending.is_none() && is_compared && state.sent < self.changes {
            for name in 0..self.names {
                let changes = [Change::Forever, Change::Short, Change::Clear];
                actions.extend(changes.map(|change| Action::Send(index, name, change)));
            }
        }
    }
}

impl Model for Overrides {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend(state.network.each().map(Action::Arrive));
        for index in 0..GATEWAYS {
            self.gateway_actions(state, index, actions);
        }
        if self.protocol != Protocol::Old {
            actions.extend((0..self.names).map(Action::DropOld));
        }
        if state.losses < self.losses {
            actions.extend([Action::Copy, Action::TakeOver, Action::Wipe]);
        }
        if state.ticks < self.end {
            actions.push(Action::Tick);
        }
        if state.set_back < self.steps && state.now > 0 {
            actions.push(Action::SetBack);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Send(gateway, name, change) => self.send(&mut next, gateway, name, change),
            Action::Arrive(write) => {
                next.network.take(write);
                self.write(&mut next, write);
            }
            Action::Receive(gateway) => self.receive(&mut next, gateway),
            Action::Refuse(gateway) => {
                next.gateways[gateway].pending = None;
                let waiter = Waiter::Refused(next.made);
                next.abandon(gateway, waiter);
                self.drop_late(&mut next);
            }
            Action::Read(gateway) => self.read(&mut next, gateway),
            Action::GiveBack(gateway) => self.give_back(&mut next, gateway),
            Action::GiveBackUnanswered(gateway) => {
                let before = next.gateways[gateway];
                self.give_back(&mut next, gateway);
                next.gateways[gateway] = Gateway {
                    comparison: None,
                    is_compared: false,
                    ..before
                };
            }
            Action::DropEnded(gateway) => next.drop_ended(gateway),
            Action::DropOld(name) => next.redis.drop_old(name, next.now, self.keep),
            Action::Reconnect(gateway) => next.gateways[gateway].reconnect(),
            Action::Crash(gateway) => {
                next.gateways[gateway] = Gateway::NEW;
                next.abandon(gateway, Waiter::Crashed);
            }
            Action::Copy => next.copy = next.redis,
            Action::TakeOver => {
                next.losses += 1;
                next.redis = next.copy;
                if self.renumbers() {
                    next.renew_generation();
                }
                // The calls that are under way were sent to the old server.
                next.network = Network::new();
                next.gateways.iter_mut().for_each(Gateway::reconnect);
            }
            Action::Wipe => {
                next.losses += 1;
                next.redis = Redis::EMPTY;
            }
            Action::Tick => {
                (next.now, next.ticks) = (next.now + 1, next.ticks + 1);
                for gateway in &mut next.gateways {
                    if let Some(pending) = &mut gateway.pending {
                        pending.age = 1;
                    }
                }
                self.drop_late(&mut next);
            }
            Action::SetBack => (next.now, next.set_back) = (next.now - 1, next.set_back + 1),
        }
        self.settle(&mut next);
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::properties()
    }
}
