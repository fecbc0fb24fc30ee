//! The last events of a gateway.

use std::collections::VecDeque;

use crate::document::{Event, State};
use crate::ring::push;

/// Events that are kept.
const MOST: usize = 100;

/// The last events; an older one makes place for a new one.
#[derive(Debug, Default)]
pub struct EventLog(VecDeque<Event>);

impl EventLog {
    /// Adds one, which happened at `at`, in ms since the epoch.
    pub fn add(&mut self, at: u64, kind: &str, state: State, text: String) {
        let kind = kind.to_owned();
        let event = Event {
            at,
            kind,
            state,
            text,
        };
        push(&mut self.0, event, MOST);
    }

    /// The last ones, the latest first.
    pub fn list(&self) -> Vec<Event> {
        self.0.iter().rev().cloned().collect()
    }
}
