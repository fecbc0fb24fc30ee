//! The states of upstreams' servers, their changes, and the upstreams with too few servers.

use std::collections::BTreeMap;

use crate::document::{Health, State};

/// The state of a server that takes requests.
const HEALTHY: &str = "healthy";
/// The state of a server that gets requests, but fails all of them.
const FAILING: &str = "failing";

/// The states of all servers, by upstream and address.
#[derive(Debug, Default)]
pub struct ServerStates(BTreeMap<(String, String), &'static str>);

impl ServerStates {
    /// Replaces the states of all servers, by upstream and address. Returns the changes, in sentences.
    pub fn look(
        &mut self,
        now: impl IntoIterator<Item = ((String, String), &'static str)>,
    ) -> Vec<(State, String)> {
        let now: BTreeMap<_, _> = now.into_iter().collect();
        let mut changes = Vec::new();
        for (server, state) in &now {
            if self.0.get(server).unwrap_or(&HEALTHY) == state {
                continue;
            }
            let (state, what) = match *state {
                "ejected" => (
                    State::Warning,
                    "failed too often and is left out for a while",
                ),
                "unhealthy" => (State::Warning, "fails its checks"),
                FAILING => (State::Warning, "fails all requests"),
                _ => (State::Ok, "takes requests again"),
            };
            let (name, address) = server;
            changes.push((state, format!("The server {address} of {name} {what}.")));
        }
        self.0 = now;
        changes
    }

    /// Adds a reason to `health` for each upstream with servers that get no requests or that fail all requests.
    pub fn add_to(&self, health: &mut Health) {
        let mut upstreams: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
        for ((name, _), state) in &self.0 {
            let [all, out, failing] = upstreams.entry(name).or_default();
            *all += 1;
            *failing += usize::from(*state == FAILING);
            *out += usize::from(![HEALTHY, FAILING].contains(state));
        }
        for (name, [all, out, failing]) in upstreams {
            if out == all {
                let text = format!("No server of {name} takes requests.");
                health.add(State::Failing, text);
                continue;
            }
            if out > 0 {
                let text = format!("{out} of {all} servers of {name} take no requests.");
                health.add(State::Warning, text);
            }
            if failing > 0 {
                let text = match out + failing == all {
                    true => format!("All requests to {name} fail."),
                    false => format!("{failing} of {all} servers of {name} fail all requests."),
                };
                health.add(State::Warning, text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_once_and_what_is_out_is_counted() {
        let states = |states: &[(&str, &str, &'static str)]| -> Vec<_> {
            let one = |(name, address, state): &(&str, &str, &'static str)| {
                ((name.to_string(), address.to_string()), *state)
            };
            states.iter().map(one).collect()
        };
        let mut servers = ServerStates::default();
        let first = [
            ("b", "1", "ejected"),
            ("a", "1", "healthy"),
            ("a", "2", "unhealthy"),
        ];
        let changes: Vec<_> = servers.look(states(&first));
        let expected = [
            "The server 2 of a fails its checks.",
            "The server 1 of b failed too often and is left out for a while.",
        ];
        assert_eq!(changes, expected.map(|text| (State::Warning, text.into())));
        assert_eq!(servers.look(states(&first)), []);
        let mut health = Health::default();
        servers.add_to(&mut health);
        let expected = [
            "1 of 2 servers of a take no requests.",
            "No server of b takes requests.",
        ];
        assert_eq!(health.reasons, expected);
        assert_eq!(health.state, State::Failing);
        let changes = servers.look(states(&[("b", "1", "failing"), ("c", "1", "failing")]));
        let failing = |it| {
            (
                State::Warning,
                format!("The server 1 of {it} fails all requests."),
            )
        };
        assert_eq!(changes, ["b", "c"].map(failing));
        let more = [
            ("b", "1", "failing"),
            ("c", "1", "failing"),
            ("c", "2", "healthy"),
        ];
        servers.look(states(&more));
        let mut health = Health::default();
        servers.add_to(&mut health);
        let expected = [
            "All requests to b fail.",
            "1 of 2 servers of c fail all requests.",
        ];
        assert_eq!(health.reasons, expected);
        assert_eq!(health.state, State::Warning);
        let changes = servers.look(states(&[("b", "1", "healthy")]));
        let back = "The server 1 of b takes requests again.";
        assert_eq!(changes, [(State::Ok, back.into())]);
    }
}
