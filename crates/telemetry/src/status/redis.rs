//! Describes in sentences the state of Redis, and the decisions of `on_failure` without Redis.

use std::collections::BTreeMap;

use tidegate_status::document::State;
use tidegate_status::{StoreHealth, StoreSecond, StoreState};
use tidegate_store::{Mode, OnFailure, Store};

use super::View;

/// The most names in a sentence.
const NAMES: usize = 3;

/// The state of Redis at the last sample.
#[derive(Debug, Default)]
pub(super) struct RedisWatch {
    health: StoreHealth,
    state: StoreState,
    /// The current problem. `None` if Redis decides.
    pub(super) reason: Option<(State, String)>,
}

/// An event: its kind, its state and its text.
pub(super) type News = (&'static str, State, String);

impl RedisWatch {
    /// Adds the calls and failures of the last second. Returns an event if the state has changed.
    pub(super) fn look(&mut self, view: &View<'_>, [calls, failures]: [u64; 2]) -> Option<News> {
        let (Store::Redis(store), Some(is_up)) = (view.store, view.metrics.redis().is_up()) else {
            return None;
        };
        let (servers, _) = store.servers();
        let silent = servers.silent_nodes();
        let state = self.health.look(StoreSecond {
            is_up,
            calls,
            failures,
            lost_nodes: silent.lost.len(),
            open_nodes: silent.open.len(),
        });
        let before = std::mem::replace(&mut self.state, state);
        self.reason = match state {
            StoreState::Deciding => None,
            StoreState::Unreachable | StoreState::Silent => {
                let (what, error) = match state {
                    StoreState::Unreachable => ("cannot be reached", store.connected().err()),
                    _ => ("gives no decisions", view.metrics.store.last_error()),
                };
                let why = error.map_or_else(String::new, |error| format!(": {error}"));
                let text = format!("Redis {what}{why}. {}", on_failure(view));
                Some((State::Failing, text))
            }
            StoreState::Partial => {
                let failing = silent.lost.iter().chain(&silent.open);
                let nodes = listed(failing.map(String::as_str));
                let on_failure = on_failure(view);
                let text = format!(
                    "Redis gives no decisions for a part of the keys, of nodes that fail: {nodes}. {on_failure}"
                );
                Some((part(view), text))
            }
        };
        if state == before {
            return None;
        }
        let kind = match (before, state) {
            (StoreState::Unreachable, StoreState::Deciding) | (_, StoreState::Unreachable) => {
                "redis"
            }
            _ => "breaker",
        };
        let (state, text) = self.reason.clone().unwrap_or_else(|| {
            let text = match before {
                StoreState::Unreachable => "Redis is reached again.",
                _ => "Redis decides again.",
            };
            (State::Ok, text.to_owned())
        });
        Some((kind, state, text))
    }
}

/// Returns the gateway's state while Redis decides only a part of the keys. If a limit has `on_failure: closed`, requests with other keys
/// fail, so the state is `Failing`.
fn part(view: &View<'_>) -> State {
    let mut limits = view.limits().filter(|limit| limit.mode() != Mode::Local);
    match limits.any(|limit| limit.on_failure() == OnFailure::Closed) {
        true => State::Failing,
        false => State::Warning,
    }
}

/// Describes how the limits decide while Redis does not decide: the `on_failure` of each limit.
fn on_failure(view: &View<'_>) -> String {
    let mut limits: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for limit in view.limits().filter(|limit| limit.mode() != Mode::Local) {
        let word = match limit.on_failure() {
            OnFailure::Local => "local",
            OnFailure::Open => "open",
            OnFailure::Closed => "closed",
        };
        limits.entry(word).or_default().push(limit.name());
    }
    let is_one = limits.len() == 1;
    let words = Vec::from_iter(limits.into_iter().map(|(word, names)| match is_one {
        true => word.to_owned(),
        false => format!("{word} for {}", listed(names.into_iter())),
    }));
    match words.is_empty() {
        true => "No limit asks Redis.".to_owned(),
        false => format!("Each limit follows its on_failure: {}.", words.join(", ")),
    }
}

/// Returns the first names, and the number of further names.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.collect();
    match names.split_at_checked(NAMES) {
        Some((first, [_, ..])) => {
            format!("{} and {} more", first.join(", "), names.len() - NAMES)
        }
        _ => names.join(", "),
    }
}
