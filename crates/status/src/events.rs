//! The last events of a gateway.

use std::collections::VecDeque;

use crate::document::{Event, State};
use crate::ring::push;

/// The most events that are kept.
const MOST: usize = 100;

/// The last events, at most `MOST`. Each further event replaces the oldest.
#[derive(Debug, Default)]
pub struct EventLog(VecDeque<Event>);

impl EventLog {
    /// Adds an event that happened at `at`, in ms since the epoch.
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

    /// Returns the events, the latest first.
    pub fn list(&self) -> Vec<Event> {
        self.0.iter().rev().cloned().collect()
    }
}
