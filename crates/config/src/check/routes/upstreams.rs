//! Where routes lead: one server, or a group of them that has a name, and what is spoken to them.

pub(crate) mod terms;
mod tls;

use std::collections::HashMap;
use std::sync::Arc;

use crate::check::routes::upstreams::terms::upstream_plan;
use crate::check::routes::upstreams::tls::{system, upstream_tls};
use crate::check::tls::usable;
use crate::file::{self, File, SingleOr};
use crate::plan::{ServerPlan, Speaks, UpstreamPlan};
use crate::reading::Check;
use crate::value::{LimitName, Scalar, Server, ServerScheme, Target, Weight};
use tidegate_net::tls::UpstreamTls;
use tidegate_yaml::{Place, Problem};

/// What routes lead to, in no order; whether one leads to each group is noted.
pub(super) struct Upstreams<'a> {
    groups: HashMap<String, Group<'a>>,
    /// Servers that routes name themselves, by URL.
    alone: HashMap<String, Arc<UpstreamPlan>>,
    /// For servers that nothing else is said of; made when the first one is met.
    usual: Option<Arc<UpstreamTls>>,
}

struct Group<'a> {
    /// None if something in it was refused.
    plan: Option<Arc<UpstreamPlan>>,
    name: &'a Scalar<LimitName>,
    is_used: bool,
}

/// A server as written, and where.
type WrittenServer = (Server, u32, Option<Place>);

pub(crate) fn upstreams<'f>(check: &mut Check<'_>, file: &'f File) -> Upstreams<'f> {
    let mut upstreams = Upstreams {
        groups: HashMap::new(),
        alone: HashMap::new(),
        usual: None,
    };
    for (name, upstream) in file.upstreams.iter().flat_map(|upstreams| &upstreams.0) {
        let written = &upstream.servers;
        if written.value.is_empty() {
            let problem = Problem::new(written.place, "this upstream has no servers");
            check.refuse(problem.note("at least one is needed, such as http://127.0.0.1:9000"));
        }
        let servers = group(check, upstream, &mut upstreams.usual);
        let plan = upstream_plan(check, name, upstream, servers);
        if let Some(LimitName(text)) = check.read(name) {
            let group = Group {
                plan: plan.map(Arc::new),
                name,
                is_used: false,
            };
            upstreams.groups.insert(text, group);
        }
    }
    upstreams
}

fn group(
    check: &mut Check<'_>,
    upstream: &file::Upstream,
    usual: &mut Option<Arc<UpstreamTls>>,
) -> Option<Vec<ServerPlan>> {
    // All of them are read, for all that is wrong with them.
    let written = upstream.servers.value.iter();
    let servers: Vec<_> = written
        .map(|server| written_server(check, server))
        .collect();
    let mut own = match &upstream.tls {
        Some(written) => Some(Arc::new(upstream_tls(check, written)?)),
        None => None,
    };
    let servers = servers.into_iter().collect::<Option<Vec<_>>>()?;
    let is_tls = |(server, ..): &WrittenServer| server.scheme == ServerScheme::Https;
    if let Some(written) = &upstream.tls
        && !servers.iter().any(is_tls)
    {
        let problem = Problem::new(written.place, "no server of this upstream uses TLS");
        check.refuse(problem.note("the URL of a server with TLS begins with https://"));
    }
    let tls = if own.is_some() { &mut own } else { usual };
    let plans = servers.into_iter();
    let plans = plans.map(|server| server_plan(check, server, tls));
    plans.collect()
}

fn written_server(
    check: &mut Check<'_>,
    server: &SingleOr<Server, file::WeightedServer>,
) -> Option<WrittenServer> {
    match server {
        SingleOr::Single(scalar) => Some((check.read(scalar)?, 1, scalar.place)),
        SingleOr::Block(block) => {
            let weight = check.read_some(block.value.weight.as_ref());
            let scalar = &block.value.url;
            let weight = weight.map_or(1, |Weight(weight)| weight);
            Some((check.read(scalar)?, weight, scalar.place))
        }
    }
}

/// A server, which is spoken to by `tls` if its URL says so; if that is none yet, the usual one is made.
fn server_plan(
    check: &mut Check<'_>,
    (server, weight, place): WrittenServer,
    tls: &mut Option<Arc<UpstreamTls>>,
) -> Option<ServerPlan> {
    let speaks = match (server.scheme, &*tls) {
        (ServerScheme::Http, _) => Speaks::Http1,
        (ServerScheme::H2c, _) => Speaks::Http2,
        (ServerScheme::Https, Some(tls)) => Speaks::Tls(tls.clone()),
        (ServerScheme::Https, None) => {
            let made = UpstreamTls::new(system(check, place)?, None, None);
            let made = Arc::new(usable(check, made, &[])?);
            *tls = Some(made.clone());
            Speaks::Tls(made)
        }
    };
    Some(ServerPlan {
        authority: server.authority,
        speaks,
        weight,
    })
}

/// Where a route leads; none if that is nowhere, which is told.
pub(crate) fn target(
    check: &mut Check<'_>,
    scalar: &Scalar<Target>,
    upstreams: &mut Upstreams<'_>,
) -> Option<Arc<UpstreamPlan>> {
    let name = match check.read(scalar)? {
        Target::Server(server) => {
            let server = server_plan(check, (server, 1, scalar.place), &mut upstreams.usual)?;
            let plan = upstreams.alone.entry(server.to_string());
            let plan = plan.or_insert_with(|| Arc::new(UpstreamPlan::alone(server)));
            return Some(plan.clone());
        }
        Target::Named(name) => name,
    };
    if let Some(group) = upstreams.groups.get_mut(&name) {
        group.is_used = true;
        return group.plan.clone();
    }
    let none = "a server is http://host:port; groups of servers stand under `upstreams`";
    let scheme = (name.contains('.') || name == "localhost")
        .then(|| format!("if it is a server, write http://{}:PORT", scalar.raw));
    check.undefined(
        "upstream",
        scalar,
        upstreams.groups.keys(),
        scheme.as_deref().unwrap_or(none),
    );
    None
}

/// Warns of groups that no route leads to.
pub(crate) fn unused_upstreams(check: &mut Check<'_>, upstreams: &Upstreams<'_>) {
    let unused = upstreams.groups.values().filter(|group| !group.is_used);
    let unused: Vec<(Option<Place>, &str)> = unused
        .map(|group| (group.name.place, group.name.raw.as_str()))
        .collect();
    for (place, name) in unused {
        let message = format!("no route leads to the upstream `{name}`");
        check.warn(Problem::new(place, message));
    }
}
