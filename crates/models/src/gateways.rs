//! The count of the gateways that share a Redis. Each gateway divides its limits by this count while it cannot reach Redis.
//!
//! Models `lua/gateways.lua`, and a gateway's `RedisStore::heartbeat` and `Count` (`crates/store/src/redis/mod.rs`,
//! `crates/redis/src/gateways/count.rs`).
//!
//! A tick is the time between two heartbeats. A call and its answer are one step, because a gateway waits for an answer only for a small
//! part of a tick. The call or the answer may be lost.

mod promises;

use stateright::{Model, Property};

/// The ticks without a heartbeat after which a gateway counts as gone.
const LAPSE: u8 = 3;
/// The ticks for which Redis must return lower counts before a lower count applies: the lapse plus one heartbeat.
const ROUND: u8 = LAPSE + 1;
const MOST: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// Each returned count applies at once. In use up to commit 9d78c51.
    Before,
    /// A lower count applies after answers over `ROUND` ticks, even if the gateway has paused between two answers.
    AnyRound,
    /// A lower count applies after answers over `ROUND` ticks, if the gateway has left out no heartbeat between them.
    Now,
}

#[derive(Clone, Debug)]
struct Fleet {
    protocol: Protocol,
    gateways: usize,
    /// Whether gateways may pause their heartbeats for any time.
    pauses: bool,
    /// Whether gateways may crash, and other gateways start.
    crashes: bool,
}

/// Redis's record of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Entry {
    age: u8,
    /// Whether the gateway has received the answer to this heartbeat, and so has the time of this record.
    is_answered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Lower {
    age: u8,
    most: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Gateway {
    count: u8,
    /// Ticks since the last heartbeat, if it was answered.
    last: Option<u8>,
    lower: Option<Lower>,
    has_beaten: bool,
    /// The other gateways that the answer with the highest count included, without gateways that are gone or silent.
    knows: [bool; MOST],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    is_up: bool,
    entries: [Option<Entry>; MOST],
    gateways: [Option<Gateway>; MOST],
    /// For each gateway, the ticks since its last heartbeat in which Redis ran heartbeats of other gateways.
    silent: [u8; MOST],
    has_run: [bool; MOST],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Start(usize),
    Crash(usize),
    Beat(usize),
    /// Redis does not receive the heartbeat.
    BeatLost(usize),
    /// Redis runs the heartbeat, and the answer is lost.
    AnswerLost(usize),
    Stop,
    /// Redis starts with its data.
    Restart,
    RestartEmpty,
    /// A replica takes over. The replica's data is one tick older.
    PromoteBehind,
    Tick,
}

impl Gateway {
    const NEW: Self = Self {
        count: 1,
        last: None,
        lower: None,
        has_beaten: false,
        knows: [false; MOST],
    };

    /// Models `Count::answered`. `is_known` is true if Redis has the record of the last answered heartbeat.
    fn answered(&mut self, protocol: Protocol, count: u8, is_known: bool) {
        let last = self.last.replace(0);
        if count >= self.count || protocol == Protocol::Before {
            (self.count, self.lower) = (count, None);
            return;
        }
        let is_continued = is_known && last.is_some_and(|age| protocol != Protocol::Now || age < 2);
        let lower = match self.lower {
            Some(lower) if is_continued => Lower {
                most: lower.most.max(count),
                ..lower
            },
            _ => Lower {
                age: 0,
                most: count,
            },
        };
        self.lower = Some(lower);
        if lower.age >= ROUND {
            (self.count, self.lower) = (lower.most, None);
        }
    }

    const fn unanswered(&mut self) {
        (self.last, self.lower) = (None, None);
    }
}

impl State {
    /// Runs `lua/gateways.lua`. Returns the number of gateways, and whether Redis has the record of this gateway's last answered heartbeat.
    fn run(&mut self, gateway: usize) -> (u8, bool) {
        let before = self.entries[gateway];
        self.entries[gateway] = Some(Entry {
            age: 0,
            is_answered: false,
        });
        let mut count = 0;
        for entry in &mut self.entries {
            *entry = entry.filter(|entry| entry.age < LAPSE);
            count += u8::from(entry.is_some());
        }
        self.has_run[gateway] = true;
        self.silent[gateway] = 0;
        (count, before.is_some_and(|entry| entry.is_answered))
    }

    fn beat(&mut self, protocol: Protocol, index: usize) {
        let (count, is_known) = self.run(index);
        let entries = self.entries;
        let is_alive = self.gateways.map(|gateway| gateway.is_some());
        if let Some(entry) = &mut self.entries[index] {
            entry.is_answered = true;
        }
        if let Some(gateway) = &mut self.gateways[index] {
            gateway.answered(protocol, count, is_known);
            let others: [bool; MOST] = std::array::from_fn(|other| {
                entries[other].is_some() && is_alive[other] && other != index
            });
            let count = |gateways: [bool; MOST]| gateways.iter().filter(|is| **is).count();
            // An answer contains a number and no names, so an equal number may include other gateways than before.
            if count(others) > count(gateway.knows) {
                gateway.knows = others;
            }
        }
    }

    fn forget(&mut self, index: usize) {
        for gateway in self.gateways.iter_mut().flatten() {
            gateway.knows[index] = false;
        }
    }

    fn tick(&mut self) {
        let any_ran = self.has_run.contains(&true);
        for index in 0..MOST {
            if any_ran && !self.has_run[index] && self.gateways[index].is_some() {
                self.silent[index] = (self.silent[index] + 1).min(LAPSE);
            }
            if self.silent[index] >= LAPSE {
                self.forget(index);
            }
        }
        self.has_run = [false; MOST];
        for entry in &mut self.entries {
            // The Redis key of all records has a time to live of two lapses.
            *entry = entry.filter(|entry| entry.age < 2 * LAPSE);
            if let Some(entry) = entry {
                entry.age += 1;
            }
        }
        for gateway in self.gateways.iter_mut().flatten() {
            gateway.has_beaten = false;
            gateway.last = gateway.last.map(|age| (age + 1).min(2));
            if let Some(lower) = &mut gateway.lower {
                lower.age = (lower.age + 1).min(ROUND);
            }
        }
    }
}

impl Model for Fleet {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            is_up: true,
            entries: [None; MOST],
            gateways: [None; MOST],
            silent: [0; MOST],
            has_run: [false; MOST],
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let mut is_over = true;
        for (index, gateway) in state.gateways.iter().enumerate().take(self.gateways) {
            let Some(gateway) = gateway else {
                actions.push(Action::Start(index));
                continue;
            };
            if self.crashes {
                actions.push(Action::Crash(index));
            }
            if gateway.has_beaten {
                continue;
            }
            is_over = false;
            actions.push(Action::BeatLost(index));
            if state.is_up {
                actions.extend([Action::Beat(index), Action::AnswerLost(index)]);
            }
        }
        if is_over || self.pauses {
            actions.push(Action::Tick);
        }
        if state.is_up {
            actions.extend([Action::Stop, Action::PromoteBehind]);
        } else {
            actions.extend([Action::Restart, Action::RestartEmpty]);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        match action {
            Action::Start(index) => {
                // The gateway has a new ID, without a record in Redis.
                next.gateways[index] = Some(Gateway::NEW);
                (next.entries[index], next.silent[index]) = (None, 0);
            }
            Action::Crash(index) => {
                next.gateways[index] = None;
                next.forget(index);
            }
            Action::Beat(index) => next.beat(self.protocol, index),
            Action::AnswerLost(index) => {
                next.run(index);
            }
            Action::BeatLost(_) => {}
            Action::Stop => next.is_up = false,
            Action::Restart => next.is_up = true,
            Action::RestartEmpty => {
                (next.is_up, next.entries) = (true, [None; MOST]);
            }
            Action::PromoteBehind => {
                for entry in next.entries.iter_mut().flatten() {
                    *entry = Entry {
                        age: (entry.age + 1).min(2 * LAPSE),
                        is_answered: false,
                    };
                }
            }
            Action::Tick => next.tick(),
        }
        if let Action::Beat(index) | Action::AnswerLost(index) | Action::BeatLost(index) = action
            && let Some(gateway) = &mut next.gateways[index]
        {
            gateway.has_beaten = true;
            if !matches!(action, Action::Beat(_)) {
                gateway.unanswered();
            }
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::properties()
    }
}
