//! The facts that a log lacks, and the limits that cannot be computed without them.

use std::sync::Arc;

use http::header::{ACCESS_CONTROL_REQUEST_METHOD, COOKIE, FORWARDED, ORIGIN};
use tidegate_config::Settings;
use tidegate_identity::{AddressFrom, ClientSource, Clients};
use tidegate_logs::{Field, Fields};
use tidegate_tower::{Cost, Per, Policy, Rule};

use crate::request::Given;

/// A missing fact, in words that complete the sentence "the log has no ...".
pub(crate) type Lack = Arc<str>;

/// The facts that the lines of one log have, as far as a configuration needs them.
#[derive(Debug)]
pub(crate) struct Facts {
    /// Whether the lines name the client, as in tidegate's own log.
    pub(crate) names_client: bool,
    /// Whether the client field or the address names each caller, so that no request header is needed.
    pub(crate) plain_callers: bool,
    /// Whether the lines have the header in which a trusted proxy sends its client's address. Also true if the configuration reads no such
    /// header.
    pub(crate) has_hops: bool,
    /// For each source in `clients`: the fact that the log lacks to identify a client by this source.
    pub(crate) sources: Vec<Option<Lack>>,
    /// The missing fact without which no route can be found.
    pub(crate) route: Option<Lack>,
    /// The missing fact without which some routes cannot be distinguished. If this fact is missing, each request is also routed with the
    /// values that these routes require.
    pub(crate) unsure: Option<Lack>,
    /// The missing fact that shows whether an OPTIONS request is a CORS preflight, which the gateway answers itself.
    pub(crate) preflight: Option<Lack>,
    /// The fact that each rule needs and no line of the log has, by policy and rule.
    pub(crate) rules: Vec<Vec<Option<Lack>>>,
    /// Whether the lines have the cost of their requests.
    pub(crate) has_cost: bool,
}

/// Returns the policies of a configuration in the order of their numbers: first the policy of requests without a route, then the policies
/// of the routes.
pub(crate) fn policies(settings: &Settings) -> impl Iterator<Item = &Policy> {
    let routes = settings.routes.iter().map(|route| &route.policy);
    std::iter::once(&settings.unmatched).chain(routes)
}

/// Returns the rules of all policies.
pub(crate) fn rules(settings: &Settings) -> impl Iterator<Item = &Rule> {
    policies(settings).flat_map(|policy| policy.rules.iter())
}

/// Returns the names of the request headers that a configuration reads.
pub(crate) fn headers(settings: &Settings) -> Vec<String> {
    let mut headers: Vec<&str> = Vec::new();
    for source in &settings.clients.sources {
        match source {
            ClientSource::ApiKey { header, .. } | ClientSource::UserId { header } => {
                headers.push(header.as_str());
            }
            ClientSource::Token(_) | ClientSource::Certificate(_) | ClientSource::Ip => {}
        }
    }
    if settings.clients.address_from == AddressFrom::Forwarded {
        headers.push(FORWARDED.as_str());
    }
    for rule in rules(settings) {
        headers.extend(rule.per.iter().filter_map(|per| match per {
            Per::Header(name) => Some(name.as_str()),
            Per::Cookie(_) => Some(COOKIE.as_str()),
            _ => None,
        }));
        if let Cost::Header { name, .. } = &rule.cost {
            headers.push(name.as_str());
        }
    }
    for route in &settings.routes {
        let conditions = route.shape.conditions.iter();
        let conditions = conditions.flat_map(|conditions| &conditions.headers);
        headers.extend(conditions.map(|(name, _)| name.as_str()));
        if route.cors.is_some() {
            headers.extend([ACCESS_CONTROL_REQUEST_METHOD.as_str(), ORIGIN.as_str()]);
        }
    }
    headers.into_iter().map(str::to_owned).collect()
}

impl Facts {
    pub(crate) fn of(fields: &Fields, given: &Given, settings: &Settings) -> Self {
        let has = |field| fields.has(field);
        let names_client = has(Field::Client);
        let reads = |source: &ClientSource| match source {
            ClientSource::ApiKey { header, .. } | ClientSource::UserId { header } => {
                fields.has_header(header.as_str())
            }
            // A token names the caller of its request. So the client address alone does not identify each caller.
            ClientSource::Token(_) => true,
            ClientSource::Certificate(_) | ClientSource::Ip => false,
        };
        let by_header = settings.clients.sources.iter().any(reads)
            || has(Field::ForwardedFor)
            || fields.has_header("forwarded");
        let sources = settings.clients.sources.iter();
        let sources = sources.map(|source| source_lack(source, fields)).collect();
        let has_hops = match settings.clients.address_from {
            AddressFrom::XForwardedFor => has(Field::ForwardedFor),
            AddressFrom::Forwarded => fields.has_header("forwarded"),
            AddressFrom::Connection => true,
        };
        let has_host = has(Field::Host) || given.host.is_some();
        let route = [(Field::Method, "method"), (Field::Path, "path")]
            .into_iter()
            .find(|(field, _)| !has(*field))
            .map(|(_, word)| Lack::from(word));
        let lack = |rule: &Rule| rule_lack(rule, fields, has_host);
        let rules = policies(settings).map(|policy| policy.rules.iter().map(lack).collect());
        Self {
            names_client,
            plain_callers: names_client || !by_header,
            has_hops,
            sources,
            route,
            unsure: unsure(settings, fields, has_host),
            preflight: preflight(settings, fields),
            rules: rules.collect(),
            has_cost: has(Field::Cost),
        }
    }
}

/// Returns the fact that the log lacks to identify a client by this source.
fn source_lack(source: &ClientSource, fields: &Fields) -> Option<Lack> {
    match source {
        ClientSource::ApiKey { header, .. } | ClientSource::UserId { header } => {
            let missing = !fields.has_header(header.as_str());
            missing.then(|| format!("client (nor header {header})").into())
        }
        // A logged token has expired by now, so it names no client.
        ClientSource::Token(_) => Some("client, which tokens named".into()),
        ClientSource::Certificate(_) => Some("client, which certificates named".into()),
        ClientSource::Ip => None,
    }
}

/// Returns the fact that a rule needs and no line of the log has.
fn rule_lack(rule: &Rule, fields: &Fields, has_host: bool) -> Option<Lack> {
    let missing = |has: bool, word: &str| (!has).then(|| Lack::from(word));
    let per = rule.per.iter().find_map(|per| match per {
        Per::Method => missing(fields.has(Field::Method), "method"),
        Per::Host => missing(has_host, "host"),
        Per::Header(name) => missing(
            fields.has_header(name.as_str()),
            &format!("request header {name}"),
        ),
        Per::Cookie(_) => missing(fields.has_header(COOKIE.as_str()), "request header cookie"),
        Per::Query(_) => missing(fields.has(Field::Query), "query"),
        Per::Descriptor(_) => missing(false, "descriptor"),
        Per::Json(_) => missing(false, "body of the request"),
        _ => None,
    });
    let holds = rule.limit.lease().is_some();
    let duration = || missing(!holds || fields.has(Field::Duration), "duration");
    let status = || missing(rule.count.is_none() || fields.has(Field::Status), "status");
    // `set_cost` reports a missing header cost per request, because the gateway reads this header only from trusted peers.
    let is_told = matches!(rule.cost, Cost::Answer { .. } | Cost::Body { .. });
    let cost = || missing(!is_told || fields.has(Field::Cost), "cost");
    per.or_else(duration).or_else(status).or_else(cost)
}

/// Returns the fact that the log lacks to distinguish some routes.
fn unsure(settings: &Settings, fields: &Fields, has_host: bool) -> Option<Lack> {
    for route in &settings.routes {
        if route.shape.host.is_some() && !has_host {
            return Some("host (--host names one)".into());
        }
        let Some(conditions) = &route.shape.conditions else {
            continue;
        };
        if !conditions.query.is_empty() && !fields.has(Field::Query) {
            return Some("query, which chooses a route".into());
        }
        for (header, _) in &conditions.headers {
            if !fields.has_header(header.as_str()) {
                return Some(format!("request header {header}, which chooses a route").into());
            }
        }
    }
    None
}

/// Returns the fact that the log lacks to recognize a CORS preflight. In tidegate's own log, the outcome shows whether a request was a
/// preflight.
fn preflight(settings: &Settings, fields: &Fields) -> Option<Lack> {
    let asks = settings.routes.iter().any(|route| route.cors.is_some());
    let says = fields.has(Field::Outcome)
        || fields.has_header(ACCESS_CONTROL_REQUEST_METHOD.as_str())
            && fields.has_header(ORIGIN.as_str());
    (asks && !says).then(|| "request header access-control-request-method, of OPTIONS".into())
}

/// Whether the key, the quota or the access lists of a limit depend on the client.
pub(crate) fn needs_client(policy: &Policy, rule: &Rule) -> bool {
    let by_name = rule.per.contains(&Per::Client);
    let access = policy.access.as_ref();
    by_name || !rule.plans.is_empty() || access.is_some_and(|access| access.needs_names())
}

/// Returns the fact that the log lacks for a name in the limit's `per` that one source gives, such as `api_key`. `lacks` has the missing
/// fact of each source.
pub(crate) fn name_lack(rule: &Rule, clients: &Clients, lacks: &[Option<Lack>]) -> Option<Lack> {
    rule.per.iter().find_map(|per| {
        let mut sources = clients.sources.iter().zip(lacks);
        sources.find_map(|(source, lack)| {
            let asks = match source {
                ClientSource::ApiKey { .. } => *per == Per::ApiKey,
                ClientSource::UserId { .. } => *per == Per::UserId,
                ClientSource::Token(_) => *per == Per::UserId || matches!(per, Per::Claim(_)),
                ClientSource::Certificate(_) => *per == Per::ClientCert,
                ClientSource::Ip => false,
            };
            lack.clone().filter(|_| asks)
        })
    })
}
