//! The upstreams of routes: single servers, or groups of servers with a name (`upstreams`).

pub(crate) mod balance;
pub(crate) mod health;
pub(crate) mod own;
pub(crate) mod server;
pub(crate) mod tls;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::yaml::{Place, Problem, Spanned};
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_net::tls::UpstreamTls;
use tidegate_upstream::{Balance, ServerSettings, Share, Speaks, Sticky, UpstreamSettings};

use crate::check::Check;
use crate::pem::{self, usable};
use crate::secret::Secret;
use crate::shape::{Named, SingleOr};
use crate::upstreams::balance::{WrittenSticky, balance};
use crate::upstreams::health::{Eject, Health, NoEjection, eject, health_settings};
use crate::upstreams::own::{OwnAddress, elsewhere};
use crate::upstreams::server::{
    Server, ServerScheme, Target, address_in_certificate, listed_twice, other_scheme,
};
use crate::upstreams::tls::{NO_AUTHORITIES, WrittenUpstreamTls, upstream_tls};
use crate::value::Scalar;
use crate::value::number::{Connections, Percent, bounded};
use crate::value::word::LimitName;

/// A group of servers.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Upstream {
    /// The servers of the group: URLs, or `{ url, weight }`. A host name stands for all addresses of the host.
    pub(crate) servers: Spanned<Vec<SingleOr<Server, WeightedServer>>>,
    /// The choice of a server: round_robin or least_requests, or for sticky sessions `{ hash }` or `{ cookie }`. Default: round_robin.
    pub(crate) balance: Option<SingleOr<Balance, WrittenSticky>>,
    /// The time between two DNS lookups of host names. A failed connection also causes a lookup. Default: 30s.
    pub(crate) resolve_every: Option<Scalar<Duration>>,
    /// The rule by which failing servers get no requests for some time: none, or `{ after, for, at_most, status }`. Default: the rule with
    /// its defaults.
    pub(crate) eject: Option<SingleOr<NoEjection, Eject>>,
    /// Health checks of the servers. Default: none.
    pub(crate) health: Option<Spanned<Health>>,
    /// The time in which a returning server's share of requests rises to its full value. Default: none; the server gets its full
    /// share at once.
    pub(crate) slow_start: Option<Scalar<Duration>>,
    /// The most connections in use to one server, or with HTTP/2, the most requests in flight. Default: no bound.
    pub(crate) max_connections: Option<Scalar<Connections>>,
    /// The share of `max_connections` that one client address or IPv6 /64 may use, in percent. Default: 75%.
    pub(crate) max_connections_per_ip: Option<Scalar<Percent>>,
    /// The most requests that wait for a connection. Default: 100.
    pub(crate) max_waiting: Option<Scalar<Waiting>>,
    /// The time for which an idle connection is kept. Default: 30s.
    pub(crate) idle: Option<Scalar<Duration>>,
    /// The trusted authorities and the gateway's certificate, for https:// servers. Default: the system's authorities, no certificate.
    pub(crate) tls: Option<Spanned<WrittenUpstreamTls>>,
}

/// A server that has settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WeightedServer {
    /// The URL of the server.
    pub(crate) url: Scalar<Server>,
    /// The server's share of requests, relative to the weights of the other servers, 1 to 1000. Default: 1.
    pub(crate) weight: Option<Scalar<Weight>>,
}

bounded!(
    /// The weight of a server: its share of requests, relative to other servers.
    Weight(u32),
    1..=1_000,
    "a weight",
    "a whole number from 1 to 1000"
);

bounded!(
    /// A number of requests that may wait.
    Waiting(usize),
    0..=1_000_000,
    "a number of requests",
    "a whole number from 0 to 1000000"
);

/// The upstreams of routes, in no particular order. Each group records whether a route uses it.
pub(crate) struct Upstreams<'a> {
    groups: HashMap<String, Group<'a>>,
    /// The servers without a group, by URL. A route names such a server by its URL in `upstream`.
    alone: HashMap<String, Arc<UpstreamSettings>>,
    /// The default settings of TLS. They are made for the first server that needs them.
    usual: Option<Arc<UpstreamTls>>,
    /// The addresses of this gateway. A server with such an address is refused.
    own: Vec<OwnAddress>,
}

struct Group<'a> {
    /// `None` if a part of the group was refused.
    settings: Option<Arc<UpstreamSettings>>,
    name: &'a Scalar<LimitName>,
    is_used: bool,
}

/// A server as written, with its weight and place.
type WrittenServer = (Server, u32, Option<Place>);

pub(crate) fn upstreams<'f>(
    check: &mut Check<'_>,
    written: Option<&'f Named<Upstream>>,
    secret: Option<&Secret>,
    own: Vec<OwnAddress>,
) -> Upstreams<'f> {
    let mut upstreams = Upstreams {
        groups: HashMap::new(),
        alone: HashMap::new(),
        usual: None,
        own,
    };
    for (name, upstream) in written.into_iter().flat_map(|upstreams| &upstreams.0) {
        let written = &upstream.servers;
        if written.value.is_empty() {
            let problem = Problem::new(written.place, "this upstream has no servers");
            check.refuse(problem.note("at least one is needed, such as http://127.0.0.1:9000"));
        }
        let servers = group(check, upstream, &mut upstreams);
        let settings = upstream_settings(check, name, upstream, servers, secret);
        if let Some(settings) = &settings {
            warn_of_balance(check, name, upstream, settings, &upstreams);
        }
        if let Some(LimitName(text)) = check.read(name) {
            let group = Group {
                settings: settings.map(Arc::new),
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
    upstream: &Upstream,
    upstreams: &mut Upstreams<'_>,
) -> Option<Vec<ServerSettings>> {
    // All servers are read before the first return, to report all errors.
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
    listed_twice(
        check,
        servers.iter().map(|(server, _, place)| (server, *place)),
    );
    let tls = upstream.tls.as_ref().map(|tls| &tls.value);
    if tls.is_none_or(|tls| tls.ca.is_none() && tls.server_name.is_none() && tls.verify.is_none()) {
        for (server, _, place) in &servers {
            address_in_certificate(check, server, *place);
        }
    }
    let usual = &mut upstreams.usual;
    let tls = if own.is_some() { &mut own } else { usual };
    servers
        .into_iter()
        .map(|server| server_settings(check, server, tls, &upstreams.own))
        .collect()
}

fn written_server(
    check: &mut Check<'_>,
    server: &SingleOr<Server, WeightedServer>,
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

/// Makes the settings of a server. A server with TLS uses the TLS settings in `tls`. If `tls` is `None`, the first server with TLS sets
/// `tls` to the default settings.
fn server_settings(
    check: &mut Check<'_>,
    (server, weight, place): WrittenServer,
    tls: &mut Option<Arc<UpstreamTls>>,
    own: &[OwnAddress],
) -> Option<ServerSettings> {
    let speaks = match (server.scheme, &*tls) {
        (ServerScheme::Http, _) => Speaks::Http1,
        (ServerScheme::H2c, _) => Speaks::Http2,
        (ServerScheme::Https, Some(tls)) => Speaks::Tls(tls.clone()),
        (ServerScheme::Https, None) => {
            let trust = pem::system(check, place, NO_AUTHORITIES)?;
            let made = UpstreamTls::new(trust, None, None);
            let made = Arc::new(usable(check, made, [])?);
            *tls = Some(made.clone());
            Speaks::Tls(made)
        }
    };
    let settings = ServerSettings {
        authority: server.authority,
        speaks,
        weight,
    };
    elsewhere(check, &settings, place, own);
    other_scheme(check, &settings, place);
    Some(settings)
}

/// Returns the upstream of a route. Refuses a name that is not defined.
pub(crate) fn target(
    check: &mut Check<'_>,
    scalar: &Scalar<Target>,
    upstreams: &mut Upstreams<'_>,
) -> Option<Arc<UpstreamSettings>> {
    let name = match check.read(scalar)? {
        Target::Server(server) => {
            address_in_certificate(check, &server, scalar.place);
            let server = (server, 1, scalar.place);
            let server = server_settings(check, server, &mut upstreams.usual, &upstreams.own)?;
            let settings = upstreams.alone.entry(server.to_string());
            let settings = settings.or_insert_with(|| Arc::new(UpstreamSettings::alone(server)));
            return Some(settings.clone());
        }
        Target::Named(name) => name,
    };
    if let Some(group) = upstreams.groups.get_mut(&name) {
        group.is_used = true;
        return group.settings.clone();
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

/// Warns of groups that no route uses.
pub(crate) fn unused_upstreams(check: &mut Check<'_>, upstreams: &Upstreams<'_>) {
    for group in upstreams.groups.values().filter(|group| !group.is_used) {
        let message = format!("no route leads to the upstream `{}`", group.name.raw);
        check.warn(Problem::new(group.name.place, message));
    }
}

/// Warns of sticky sessions without effect, and of two upstreams whose sticky sessions use the same cookie.
fn warn_of_balance(
    check: &mut Check<'_>,
    name: &Scalar<LimitName>,
    written: &Upstream,
    settings: &UpstreamSettings,
    others: &Upstreams<'_>,
) {
    let (Some(SingleOr::Block(block)), Some(sticky)) = (&written.balance, &settings.sticky) else {
        return;
    };
    if let [server] = &settings.servers[..]
        && server.endpoint().0.parse::<IpAddr>().is_ok()
    {
        let message = format!(
            "`balance` chooses among servers, and `{}` has one",
            name.raw
        );
        check.warn(Problem::new(block.place, message).note("add servers, or leave this out"));
    }
    let Sticky::Cookie(cookie, _) = sticky else {
        return;
    };
    for group in others.groups.values() {
        if let Some(settings) = &group.settings
            && let Some(Sticky::Cookie(same, _)) = &settings.sticky
            && same == cookie
        {
            let other = &group.name.raw;
            let message = format!("the upstream `{other}` sets the cookie `{cookie}`, too");
            let note = "a client of both under one host loses its server each time: give each upstream a cookie of its own";
            check.warn(Problem::new(block.place, message).note(note));
            break;
        }
    }
}

/// The default of `max_waiting`, in requests. Requests wait for a connection only if `max_connections` is set.
const MAX_WAITING: usize = 100;

/// Makes the settings of a group. If the servers were refused, reads the other keys nevertheless, to report all errors.
pub(crate) fn upstream_settings(
    check: &mut Check<'_>,
    name: &Scalar<LimitName>,
    written: &Upstream,
    servers: Option<Vec<ServerSettings>>,
    secret: Option<&Secret>,
) -> Option<UpstreamSettings> {
    let (balance, sticky) = balance(check, written.balance.as_ref(), secret);
    let resolve_every = check.read_some(written.resolve_every.as_ref());
    let eject = eject(check, written.eject.as_ref());
    let health = written.health.as_ref();
    let health = health.map(|health| health_settings(check, health, servers.as_deref()));
    let slow_start = check.read_some(written.slow_start.as_ref());
    let max_connections = check.read_some(written.max_connections.as_ref());
    let max_waiting = check.read_some(written.max_waiting.as_ref());
    let per_ip = check.read_some(written.max_connections_per_ip.as_ref());
    let share = per_ip.map_or_else(Share::default, |Percent(share)| Share(share));
    let idle = check.read_some(written.idle.as_ref());
    if let (Some(scalar), None) = (&written.max_connections_per_ip, &written.max_connections) {
        let message = "`max_connections_per_ip` is a part of `max_connections`";
        let note = "say how many connections one server takes, or leave this out";
        check.refuse(Problem::new(scalar.place, message).note(note));
    }
    let max_connections = max_connections.map(|Connections(number)| number);
    if let (Some(scalar), Some(number), None) = (&written.max_connections, max_connections, per_ip)
        && !share.leaves_some(number.saturating_mul(written.servers.value.len()))
    {
        let message = "one client may hold all connections of this upstream";
        check.warn(Problem::new(scalar.place, message).note(
            "meanwhile others wait, and get 503: of 4 connections and more, a quarter is left to others",
        ));
    }
    if let (Some(scalar), None) = (&written.max_waiting, &written.max_connections) {
        let problem = Problem::new(scalar.place, "no request waits without `max_connections`");
        check.refuse(problem.note("say how many connections one server takes, or leave this out"));
    }
    Some(UpstreamSettings {
        name: name.raw.as_str().into(),
        servers: servers?,
        balance,
        sticky,
        resolve_every: resolve_every.unwrap_or(UpstreamSettings::RESOLVE_EVERY),
        eject,
        health: match health {
            Some(health) => Some(health?),
            None => None,
        },
        slow_start,
        max_connections,
        max_connections_per_ip: share,
        max_waiting: max_waiting.map_or(MAX_WAITING, |Waiting(number)| number),
        idle: idle.unwrap_or(UpstreamSettings::IDLE),
    })
}
