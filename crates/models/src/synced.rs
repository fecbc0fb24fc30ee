//! Counts of mode `synced`: each gateway counts by itself, and gateways exchange counts.
//!
//! Models `lua/exchange.lua` for a sliding window counter. The modelled parts of a gateway are `Tally` (`crates/core/src/tally.rs`),
//! `Entry` (`crates/store/src/redis/synced/entry.rs`) and the calls of `crates/store/src/redis/synced/exchange.rs`.
//!
//! Windows are numbered. A gateway and Redis begin a window at different moments, but are never more than one window apart.

mod promises;

use stateright::{Model, Property};

use crate::network::Network;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// A gateway sends only the counts that it made after the last answer. No release has used this protocol.
    Differences,
    /// A gateway sends its total counts, and numbers its calls.
    Now,
}

#[derive(Clone, Debug)]
struct Synced {
    protocol: Protocol,
    gateways: usize,
    limit: i8,
    /// The number of calls that each gateway makes.
    calls: u8,
    /// The number of times that the window changes.
    turns: u8,
    /// Whether calls may run twice.
    doubles: bool,
    /// Whether Redis may lose its data, once.
    losses: bool,
}

/// The number of a window, its count, and the count of the previous window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Counts {
    start: u8,
    current: i8,
    previous: i8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Message {
    /// A call: the gateway, the number of the call, and the gateway's counts.
    Tell(usize, u8, Counts),
    /// An answer: the gateway, the counts of all gateways, the part that this gateway sent, and whether Redis had lost its data before the
    /// answer.
    Totals(usize, Counts, Counts, bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Note {
    call: u8,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Gateway {
    calls: u8,
    is_telling: bool,
    own: Counts,
    /// The counts of `own` that Redis has.
    copy: Counts,
    others: Counts,
    /// Whether an answer has come since Redis lost its data.
    has_heard: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// The window at the present time by Redis's clock.
    window: u8,
    /// The counts of all gateways in Redis.
    state: Counts,
    notes: Vec<Option<Note>>,
    gateways: Vec<Gateway>,
    network: Network<Message>,
    is_lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Count(usize),
    Tell(usize),
    /// The gateway has timed out.
    TimeOut(usize),
    Arrive(Message),
    ArriveTwice(Message),
    /// The next window begins for the gateway. `TurnRedis` does the same for Redis.
    Turn(usize),
    TurnRedis,
    LoseData,
}

impl Counts {
    const NONE: Self = Self {
        start: 0,
        current: 0,
        previous: 0,
    };

    /// Returns the counts of window `start` and of the window before it. Models `counts_of` in `lua/exchange.lua` and `TallyCounts::after`
    /// in `crates/core/src/tally.rs`.
    fn at(self, start: u8) -> (Option<i8>, Option<i8>) {
        if self.start == start {
            (Some(self.current), Some(self.previous))
        } else if self.start + 1 == start {
            (None, Some(self.current))
        } else if self.start == start + 1 {
            (Some(self.previous), None)
        } else {
            (None, None)
        }
    }

    fn turned(self, start: u8) -> Self {
        let (current, previous) = self.at(start);
        Self {
            start,
            current: current.unwrap_or(0),
            previous: previous.unwrap_or(0),
        }
    }
}

impl Gateway {
    fn turn(&mut self, start: u8) {
        if start > self.own.start {
            self.own = self.own.turned(start);
            self.copy = self.copy.turned(start);
            self.others = self.others.turned(start);
        }
    }

    /// Models `Tally::learn`.
    fn learn(&mut self, all: Counts, own: Counts) {
        self.turn(all.start);
        let others = Counts {
            start: all.start,
            current: all.current - own.current,
            previous: all.previous - own.previous,
        };
        if all.start == self.own.start {
            (self.copy, self.others) = (own, others);
        } else if all.start + 1 == self.own.start {
            (self.copy.previous, self.others.previous) = (own.current, others.current);
        }
    }

    /// Models `Tally::is_told`.
    fn is_told(&self) -> bool {
        self.own == self.copy
    }
}

impl State {
    /// Returns the count of this gateway in a window. Returns 0 for a window before the gateway's previous window.
    fn own(&self, gateway: usize, window: u8) -> i8 {
        let own = self.gateways[gateway].own;
        if own.start == window {
            own.current
        } else if own.start == window + 1 {
            own.previous
        } else {
            0
        }
    }
}

impl Synced {
    /// Runs `lua/exchange.lua`.
    fn run(&self, state: &mut State, id: usize, call: u8, counts: Counts) -> (Counts, Counts) {
        let start = state.window;
        let mut all = state.state.turned(start);
        let note = state.notes[id];
        let last = note.map_or(Counts::NONE, |note| note.counts);
        let mut noted = last.turned(start);
        if call > note.map_or(0, |note| note.call) && last.start <= start {
            let (current, previous) = counts.at(start);
            let (mut current, mut previous) = (
                current.unwrap_or(noted.current),
                previous.unwrap_or(noted.previous),
            );
            if self.protocol == Protocol::Differences {
                (current, previous) = (noted.current + current, noted.previous + previous);
            }
            all.current += (current - noted.current).max(-all.current);
            all.previous += (previous - noted.previous).max(-all.previous);
            noted = Counts {
                start,
                current,
                previous,
            };
            state.state = all;
            if note.is_some() || current > 0 || previous > 0 {
                state.notes[id] = Some(Note {
                    call,
                    counts: noted,
                });
                for note in &mut state.notes {
                    // Drops notes that have no counts in this window or the previous window.
                    *note = note.filter(|note| note.counts.start + 1 >= start);
                }
            }
        }
        (all, noted)
    }

    fn arrive(&self, state: &mut State, message: Message) {
        match message {
            Message::Tell(id, call, counts) => {
                // Without numbers, Redis treats each call as new.
                let number = match self.protocol {
                    Protocol::Differences => u8::MAX,
                    Protocol::Now => call,
                };
                if self.protocol == Protocol::Differences
                    && let Some(note) = &mut state.notes[id]
                {
                    note.call = 0;
                }
                let (all, own) = self.run(state, id, number, counts);
                let is_answer =
                    |message: &Message| matches!(message, Message::Totals(of, ..) if *of == id);
                let gateway = state.gateways[id];
                if gateway.is_telling && gateway.calls == call && !state.network.has(is_answer) {
                    let answer = Message::Totals(id, all, own, state.is_lost);
                    state.network.send(answer);
                }
            }
            Message::Totals(id, all, own, is_since) => {
                let gateway = &mut state.gateways[id];
                gateway.is_telling = false;
                gateway.has_heard |= is_since;
                gateway.learn(all, own);
            }
        }
    }
}

impl Model for Synced {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let gateway = Gateway {
            calls: 0,
            is_telling: false,
            own: Counts::NONE,
            copy: Counts::NONE,
            others: Counts::NONE,
            has_heard: false,
        };
        vec![State {
            window: 0,
            state: Counts::NONE,
            notes: vec![None; self.gateways],
            gateways: vec![gateway; self.gateways],
            network: Network::new(),
            is_lost: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for message in state.network.each() {
            actions.push(Action::Arrive(message));
            if self.doubles && matches!(message, Message::Tell(..)) {
                actions.push(Action::ArriveTwice(message));
            }
        }
        for (id, gateway) in state.gateways.iter().enumerate() {
            // The model counts the previous window completely, as `sliding_window_counter` does at the start of a window.
            let used = gateway.own.current + gateway.others.current;
            if used + gateway.own.previous + gateway.others.previous < self.limit {
                actions.push(Action::Count(id));
            }
            if gateway.is_telling {
                actions.push(Action::TimeOut(id));
            } else if gateway.calls < self.calls {
                actions.push(Action::Tell(id));
            }
            if gateway.own.start <= state.window && gateway.own.start < self.turns {
                actions.push(Action::Turn(id));
            }
        }
        let mut gateways = state.gateways.iter();
        if state.window < self.turns && gateways.all(|gateway| gateway.own.start >= state.window) {
            actions.push(Action::TurnRedis);
        }
        if self.losses && !state.is_lost {
            actions.push(Action::LoseData);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Count(id) => next.gateways[id].own.current += 1,
            Action::Tell(id) => {
                let gateway = &mut next.gateways[id];
                gateway.calls += 1;
                gateway.is_telling = true;
                let mut counts = gateway.own;
                if self.protocol == Protocol::Differences {
                    counts.current -= gateway.copy.current;
                    counts.previous -= gateway.copy.previous;
                }
                let call = gateway.calls;
                next.network.send(Message::Tell(id, call, counts));
            }
            Action::TimeOut(id) => {
                // The call may run later. The answer to this call is dropped.
                next.gateways[id].is_telling = false;
                next.network
                    .drop_all(|message| matches!(message, Message::Totals(of, ..) if *of == id));
            }
            Action::Arrive(message) => {
                next.network.take(message);
                self.arrive(&mut next, message);
            }
            Action::ArriveTwice(message) => self.arrive(&mut next, message),
            Action::Turn(id) => {
                let start = next.gateways[id].own.start + 1;
                next.gateways[id].turn(start);
            }
            Action::TurnRedis => {
                next.window += 1;
                next.state = next.state.turned(next.window);
            }
            Action::LoseData => {
                next.is_lost = true;
                next.state = Counts::NONE.turned(next.window);
                next.notes.fill(None);
            }
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::properties()
    }
}
