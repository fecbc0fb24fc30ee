//! Derives events from the changes between two samples, and the gateway's state from the last sample.

use std::time::Instant;

use tidegate_server::Pressure;
use tidegate_status::document::{Health, State};
use tidegate_status::{EventLog, ServerStates};

use super::View;
use super::crowded::CrowdedWatch;
use super::redis::RedisWatch;
use crate::metrics::epoch_ms;

/// The last events, and the state at the last sample.
#[derive(Debug)]
pub(super) struct Events {
    pub(super) last: EventLog,
    configured_at: u64,
    refused_reloads: u64,
    // Whether the last reload was refused.
    is_stale: bool,
    redis: RedisWatch,
    crowded: CrowdedWatch,
    servers: ServerStates,
    pressure: Pressure,
}

impl Events {
    pub(super) fn new(view: &View<'_>) -> Self {
        let mut events = Self {
            last: EventLog::default(),
            configured_at: view.configured_at,
            refused_reloads: view.metrics.reloads().refused(),
            is_stale: false,
            redis: RedisWatch::default(),
            crowded: CrowdedWatch::default(),
            servers: ServerStates::default(),
            pressure: Pressure::None,
        };
        events.add("start", State::Ok, "The gateway started.".into());
        events
    }

    /// Adds an event with the current time.
    pub(super) fn add(&mut self, kind: &str, state: State, text: String) {
        self.last.add(epoch_ms(), kind, state, text);
    }

    /// Adds events for the changes since the last sample. `calls` has two counts of the last second: the calls of Redis that ended, and the
    /// calls of Redis that returned no decision.
    pub(super) fn look(&mut self, view: &View<'_>, calls: [u64; 2]) {
        let refused = view.metrics.reloads().refused();
        if refused > self.refused_reloads {
            self.refused_reloads = refused;
            self.is_stale = true;
            let text = "A reload was refused. The configuration before it stays in force.";
            self.add("reload_refused", State::Warning, text.into());
        }
        if view.configured_at != self.configured_at {
            self.configured_at = view.configured_at;
            self.is_stale = false;
            let text = format!("The configuration {} was taken.", view.configuration);
            self.add("reload", State::Ok, text);
        }
        if let Some((kind, state, text)) = self.redis.look(view, calls) {
            self.add(kind, state, text);
        }
        for (state, text) in self.crowded.look(view.store.memory(), Instant::now()) {
            self.add("keys", state, text);
        }
        for (limit, count) in view.metrics.budget_events().take_reported() {
            let text = match count {
                1 => format!("A budget of the limit {limit} has reached a threshold of notify."),
                _ => format!(
                    "{count} budgets of the limit {limit} have reached a threshold of notify."
                ),
            };
            self.add("budget", State::Ok, text);
        }
        let pressure = view.overload.pressure();
        if pressure != self.pressure {
            self.pressure = pressure;
            let (state, text) = of_memory(pressure);
            self.add("memory", state, text.into());
        }
        let mut servers = Vec::new();
        for (name, upstream) in view.upstreams {
            for server in upstream.state().servers {
                let server_of = (name.to_string(), server.address.to_string());
                servers.push((server_of, server.state));
            }
        }
        for (state, text) in self.servers.look(servers) {
            self.add("upstream", state, text);
        }
    }

    /// Returns the current state with its reasons.
    pub(super) fn health(&self) -> Health {
        let mut health = Health::default();
        if let Some((state, reason)) = &self.redis.reason {
            health.add(*state, reason.clone());
        }
        for reason in self.crowded.reasons() {
            health.add(State::Warning, reason);
        }
        if self.pressure != Pressure::None {
            let (state, reason) = of_memory(self.pressure);
            health.add(state, reason.into());
        }
        self.servers.add_to(&mut health);
        if self.is_stale {
            let reason = "The last reload was refused. The configuration before it stays in force.";
            health.add(State::Warning, reason.into());
        }
        health
    }
}

const fn of_memory(pressure: Pressure) -> (State, &'static str) {
    match pressure {
        Pressure::None => (State::Ok, "Memory is below max_memory again."),
        Pressure::Near => (
            State::Warning,
            "Memory is near max_memory. New connections are refused.",
        ),
        Pressure::Full => (
            State::Failing,
            "Memory is at max_memory. Requests are refused with 503.",
        ),
    }
}
