//! What happened lately, seen by what changed between two samples; and whether all is well.

use std::collections::{HashMap, VecDeque};

use tidegate_server::Pressure;
use tidegate_status::document::{Event, Health, State};

use super::View;
use crate::metrics::epoch_ms;

/// Events that are kept.
const MOST: usize = 100;

/// The last events, and the state that the next ones are seen against.
#[derive(Debug)]
pub(super) struct Events {
    last: VecDeque<Event>,
    configured_at: u64,
    refused_reloads: u64,
    // Whether the last reload was refused.
    is_stale: bool,
    redis: Option<bool>,
    servers: HashMap<(String, String), &'static str>,
    pressure: Pressure,
}

impl Events {
    pub(super) fn new(view: &View<'_>) -> Self {
        let mut events = Self {
            last: VecDeque::new(),
            configured_at: view.configured_at,
            refused_reloads: view.metrics.reloads().refused(),
            is_stale: false,
            redis: None,
            servers: HashMap::new(),
            pressure: Pressure::None,
        };
        events.add("start", State::Ok, "The gateway started.".into());
        events
    }

    /// The last ones, the latest first.
    pub(super) fn list(&self) -> Vec<Event> {
        self.last.iter().rev().cloned().collect()
    }

    fn add(&mut self, kind: &str, state: State, text: String) {
        if self.last.len() == MOST {
            self.last.pop_front();
        }
        self.last.push_back(Event {
            at: epoch_ms(),
            kind: kind.to_owned(),
            state,
            text,
        });
    }

    /// Notes an event that no sample shows.
    pub(super) fn happened(&mut self, kind: &str, text: String) {
        self.add(kind, State::Ok, text);
    }

    /// Notes what has changed.
    pub(super) fn look(&mut self, view: &View<'_>) {
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
        let redis = view.metrics.redis().is_up();
        if redis != self.redis {
            match (self.redis, redis) {
                (_, Some(false)) => {
                    let text = "Redis cannot be reached. Each limit follows its on_failure.";
                    self.add("redis", State::Failing, text.into());
                }
                (Some(false), Some(true)) => {
                    self.add("redis", State::Ok, "Redis is reached again.".into());
                }
                _ => {}
            }
            self.redis = redis;
        }
        let pressure = view.overload.pressure();
        if pressure != self.pressure {
            self.pressure = pressure;
            let (state, text) = of_memory(pressure);
            self.add("memory", state, text.into());
        }
        self.look_at_servers(view);
    }

    fn look_at_servers(&mut self, view: &View<'_>) {
        let mut servers = HashMap::new();
        for (name, upstream) in view.upstreams {
            for server in upstream.state().servers {
                let key = (name.to_string(), server.address.to_string());
                servers.insert(key, server.state);
            }
        }
        let mut changed: Vec<_> = servers
            .iter()
            .filter(|(key, state)| self.servers.get(*key).unwrap_or(&"healthy") != *state)
            .map(|((name, address), state)| (name.clone(), address.clone(), *state))
            .collect();
        changed.sort();
        for (name, address, state) in changed {
            let (state, what) = match state {
                "ejected" => (
                    State::Warning,
                    "failed too often and is left out for a while",
                ),
                "unhealthy" => (State::Warning, "fails its checks"),
                _ => (State::Ok, "takes requests again"),
            };
            let text = format!("The server {address} of {name} {what}.");
            self.add("upstream", state, text);
        }
        self.servers = servers;
    }

    /// Whether all is well now.
    pub(super) fn health(&self) -> Health {
        let mut health = Health::default();
        let mut add = |state, reason: String| {
            health.state = health.state.max(state);
            health.reasons.push(reason);
        };
        if self.redis == Some(false) {
            let reason = "Redis cannot be reached. Each limit follows its on_failure.";
            add(State::Failing, reason.into());
        }
        if self.pressure != Pressure::None {
            let (state, reason) = of_memory(self.pressure);
            add(state, reason.into());
        }
        let mut upstreams: Vec<_> = self.servers.keys().map(|(name, _)| name).collect();
        upstreams.sort();
        upstreams.dedup();
        for upstream in upstreams {
            let own = self
                .servers
                .iter()
                .filter(|((name, _), _)| name == upstream);
            let (all, out) = own.fold((0, 0), |(all, out), (_, state)| {
                (all + 1, out + usize::from(*state != "healthy"))
            });
            match out {
                0 => {}
                out if out == all => add(
                    State::Failing,
                    format!("No server of {upstream} takes requests."),
                ),
                out => add(
                    State::Warning,
                    format!("{out} of {all} servers of {upstream} take no requests."),
                ),
            }
        }
        if self.is_stale {
            let reason = "The last reload was refused. The configuration before it stays in force.";
            add(State::Warning, reason.into());
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
