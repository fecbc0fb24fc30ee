//! Where routes lead: one server, or a group of them that has a name, and what is spoken to them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::config::check::Check;
use crate::config::file::{self, File, Placed};
use crate::config::plan::{ServerPlan, Speaks};
use crate::config::report::{Place, Problem};
use crate::config::value::{CertificateName, Leaf, LimitName, Server, ServerScheme, Target};
use crate::tls::{self, CertificateFiles, Trust, UpstreamTls};

/// The groups by name, in no order; whether a route leads to each is noted.
pub(super) struct Upstreams<'a> {
    groups: HashMap<String, Group<'a>>,
    /// For servers that nothing else is said of; made when the first one is met.
    usual: Option<Arc<UpstreamTls>>,
}

struct Group<'a> {
    /// None if one of them was refused.
    servers: Option<Vec<ServerPlan>>,
    name: &'a Leaf<LimitName>,
    is_used: bool,
}

impl Check<'_> {
    pub(super) fn upstreams<'f>(&mut self, file: &'f File) -> Upstreams<'f> {
        let mut upstreams = Upstreams {
            groups: HashMap::new(),
            usual: None,
        };
        for (name, upstream) in file.upstreams.iter().flat_map(|upstreams| &upstreams.0) {
            let written = &upstream.servers;
            if written.value.is_empty() {
                let problem = Problem::new(written.place, "this upstream has no servers");
                self.refuse(problem.note("at least one is needed, such as http://127.0.0.1:9000"));
            }
            let servers = self.group(upstream, &mut upstreams.usual);
            if let Some(LimitName(text)) = self.read(name) {
                let is_used = false;
                upstreams.groups.insert(
                    text,
                    Group {
                        servers,
                        name,
                        is_used,
                    },
                );
            }
        }
        upstreams
    }

    fn group(
        &mut self,
        upstream: &file::Upstream,
        usual: &mut Option<Arc<UpstreamTls>>,
    ) -> Option<Vec<ServerPlan>> {
        // All of them are read, for all that is wrong with them.
        let leaves = upstream.servers.value.iter();
        let servers: Vec<_> = leaves
            .map(|leaf| Some((self.read(leaf)?, leaf.place)))
            .collect();
        let mut own = match &upstream.tls {
            Some(written) => Some(Arc::new(self.upstream_tls(written)?)),
            None => None,
        };
        let servers = servers.into_iter().collect::<Option<Vec<_>>>()?;
        let is_tls = |(server, _): &(Server, _)| server.scheme == ServerScheme::Https;
        if let Some(written) = &upstream.tls
            && !servers.iter().any(is_tls)
        {
            let problem = Problem::new(written.place, "none of the servers is spoken to over TLS");
            self.refuse(problem.note("the URL of a server with TLS begins with https://"));
        }
        let tls = if own.is_some() { &mut own } else { usual };
        let plans = servers.into_iter();
        let plans = plans.map(|(server, place)| self.server(server, place, tls));
        plans.collect()
    }

    /// A server, which is spoken to by `tls` if its URL says so; if that is none yet, the usual one is made.
    fn server(
        &mut self,
        server: Server,
        place: Option<Place>,
        tls: &mut Option<Arc<UpstreamTls>>,
    ) -> Option<ServerPlan> {
        let speaks = match (server.scheme, &*tls) {
            (ServerScheme::Http, _) => Speaks::Http1,
            (ServerScheme::H2c, _) => Speaks::Http2,
            (ServerScheme::Https, Some(tls)) => Speaks::Tls(tls.clone()),
            (ServerScheme::Https, None) => {
                let made = UpstreamTls::new(self.system(place)?, None, None);
                let made = Arc::new(self.usable(made, &[])?);
                *tls = Some(made.clone());
                Speaks::Tls(made)
            }
        };
        let authority = server.authority;
        Some(ServerPlan { authority, speaks })
    }

    /// Those whom this machine trusts; refused where nobody is.
    fn system(&mut self, place: Option<Place>) -> Option<Trust> {
        let roots = tls::system_authorities();
        if roots.is_none() {
            let problem = Problem::new(place, "this system has no certificate authorities");
            self.refuse(problem.note(
                "a file with those of a server is named under `upstreams`: `tls: { ca_file: … }` beside its `servers`",
            ));
        }
        roots.map(|roots| Trust::Roots(Arc::new(roots)))
    }

    fn upstream_tls(&mut self, written: &Placed<file::UpstreamTls>) -> Option<UpstreamTls> {
        let tls = &written.value;
        let identity = match (&tls.cert_file, &tls.key_file) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some(CertificateFiles {
                certificate: self.file(certificate)?,
                key: self.file(key)?,
            }),
            (Some(alone), None) | (None, Some(alone)) => {
                self.refuse(
                    Problem::new(alone.place, "this file is of no use alone")
                        .note("`cert_file` and `key_file` belong together"),
                );
                return None;
            }
        };
        let name = self.read_some(tls.server_name.as_ref());
        let trust = self.trust(tls, written.place)?;
        let made = UpstreamTls::new(
            trust,
            identity.as_ref(),
            name.map(|CertificateName(name)| name),
        );
        let leaves = [&tls.ca_file, &tls.cert_file, &tls.key_file];
        let leaves: Vec<_> = leaves.into_iter().flatten().collect();
        self.usable(made, &leaves)
    }

    fn trust(&mut self, tls: &file::UpstreamTls, whole: Option<Place>) -> Option<Trust> {
        let verify = self.read_some(tls.verify.as_ref()).unwrap_or(true);
        let place = tls.verify.as_ref().and_then(|leaf| leaf.place);
        match (&tls.ca_file, verify) {
            (Some(_), false) => {
                let problem = Problem::new(place, "`ca_file` has no effect without verification");
                self.refuse(problem.note("leave one of them out"));
                None
            }
            (None, false) => {
                self.doubt(
                    Problem::new(place, "nobody verifies who these servers are")
                        .note("whoever stands in between can read and change everything: name their authority under `ca_file`"),
                );
                Some(Trust::Anybody)
            }
            (Some(leaf), true) => self.file(leaf).map(Trust::File),
            (None, true) => self.system(whole),
        }
    }

    /// The servers of a route; none if there are none, which is told.
    pub(super) fn servers(
        &mut self,
        leaf: &Leaf<Target>,
        upstreams: &mut Upstreams<'_>,
    ) -> Option<Vec<ServerPlan>> {
        let name = match self.read(leaf)? {
            Target::Server(server) => {
                let server = self.server(server, leaf.place, &mut upstreams.usual)?;
                return Some(vec![server]);
            }
            Target::Named(name) => name,
        };
        if let Some(group) = upstreams.groups.get_mut(&name) {
            group.is_used = true;
            return group.servers.clone();
        }
        let none = "a server is http://host:port; groups of servers stand under `upstreams`";
        self.undefined("upstream", leaf, upstreams.groups.keys(), none);
        None
    }

    /// Warns of groups that no route leads to.
    pub(super) fn unused_upstreams(&mut self, upstreams: &Upstreams<'_>) {
        let unused = upstreams.groups.values().filter(|group| !group.is_used);
        let unused: Vec<(Option<Place>, &str)> = unused
            .map(|group| (group.name.place, group.name.raw.as_str()))
            .collect();
        for (place, name) in unused {
            let message = format!("no route leads to the upstream `{name}`");
            self.doubt(Problem::new(place, message));
        }
    }
}
