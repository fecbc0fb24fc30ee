//! Where routes lead: one server, or a group of them that has a name.

use std::collections::HashMap;

use http::uri::Authority;

use crate::config::check::Check;
use crate::config::file::File;
use crate::config::report::{Place, Problem};
use crate::config::value::{Leaf, LimitName, Server, Target};

/// The groups by name, in no order; whether a route leads to each is noted.
pub(super) struct Upstreams<'a>(HashMap<String, Group<'a>>);

struct Group<'a> {
    /// None if one of them was refused.
    servers: Option<Vec<Authority>>,
    name: &'a Leaf<LimitName>,
    is_used: bool,
}

impl Check<'_> {
    pub(super) fn upstreams<'f>(&mut self, file: &'f File) -> Upstreams<'f> {
        let mut groups = HashMap::new();
        for (name, upstream) in file.upstreams.iter().flat_map(|upstreams| &upstreams.0) {
            let written = &upstream.servers;
            if written.value.is_empty() {
                let problem = Problem::new(written.place, "this upstream has no servers");
                self.refuse(problem.note("at least one is needed, such as http://127.0.0.1:9000"));
            }
            let servers: Vec<_> = written.value.iter().map(|leaf| self.read(leaf)).collect();
            let servers: Option<Vec<_>> = servers.into_iter().collect();
            let servers = servers.map(|all| all.into_iter().map(|Server(one)| one).collect());
            if let Some(LimitName(text)) = self.read(name) {
                let is_used = false;
                groups.insert(
                    text,
                    Group {
                        servers,
                        name,
                        is_used,
                    },
                );
            }
        }
        Upstreams(groups)
    }

    /// The servers of a route; none if there are none, which is told.
    pub(super) fn servers(
        &mut self,
        leaf: &Leaf<Target>,
        upstreams: &mut Upstreams<'_>,
    ) -> Option<Vec<Authority>> {
        let name = match self.read(leaf)? {
            Target::Server(server) => return Some(vec![server]),
            Target::Named(name) => name,
        };
        if let Some(group) = upstreams.0.get_mut(&name) {
            group.is_used = true;
            return group.servers.clone();
        }
        let none = "a server is http://host:port; groups of servers stand under `upstreams`";
        self.undefined("upstream", leaf, upstreams.0.keys(), none);
        None
    }

    /// Warns of groups that no route leads to.
    pub(super) fn unused_upstreams(&mut self, upstreams: &Upstreams<'_>) {
        let unused = upstreams.0.values().filter(|group| !group.is_used);
        let unused: Vec<(Option<Place>, &str)> = unused
            .map(|group| (group.name.place, group.name.raw.as_str()))
            .collect();
        for (place, name) in unused {
            let message = format!("no route leads to the upstream `{name}`");
            self.doubt(Problem::new(place, message));
        }
    }
}
