//! The routes: their requests, upstreams and limits (`routes`). Each key of a route, or group of keys, has its own file in this folder. The
//! file has the form of the key, its values, its checks, and the settings that the check makes from the key.

mod conditions;
pub(crate) mod cors;
pub(crate) mod edits;
mod explain;
mod guards;
pub(crate) mod health;
mod hidden;
mod hosts;
pub(crate) mod matching;
mod prefixes;
mod respelled;
mod retries;
mod serve;
mod taken;
mod timeouts;
pub(crate) mod upgrade;
mod variables;

pub use conditions::Conditions;
pub use cors::{CorsSettings, Origins};
pub use edits::{HeaderEdits, HttpsPort, RouteEdits, UpstreamHost};
pub use matching::RouteShape;
pub use timeouts::ForwardTimeouts;

use std::collections::HashMap;
use std::sync::Arc;

use crate::yaml::{Place, Problem, Spanned};
use http::{HeaderName, Method};
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_identity::Clients;
use tidegate_net::host::HostPattern;
use tidegate_net::path::EncodedSlashes;
use tidegate_net::pattern::PathPattern;
use tidegate_store::MAX_CHARGES;
use tidegate_tower::{Policy, Rule};
use tidegate_upstream::{RetrySettings, UpstreamSettings};

use crate::access::list::KnownClients;
use crate::access::{
    FileAccess, RequireWord, WrittenAccess, access_lists, exempt_from_nothing, policy_access,
};
use crate::answers::{Headers, WrittenReject, answers};
use crate::bounds::BodyLimit;
use crate::bounds::timeouts::Timeouts;
use crate::check::Check;
use crate::limits::{Rules, rules_of};
use crate::routes::conditions::conditions;
use crate::routes::cors::Cors;
use crate::routes::edits::WrittenHeaderEdits;
use crate::routes::guards::guards;
use crate::routes::hidden::hidden;
use crate::routes::hosts::other_hosts;
use crate::routes::matching::{NO_METHODS, RouteName, literal, methods, with_head};
use crate::routes::prefixes::prefixes;
use crate::routes::respelled::{has_limit, indexed, respelled};
use crate::routes::retries::{Retries, retry_settings};
use crate::routes::serve::{RouteWithSource, Serve, upstream, usual_methods};
use crate::routes::timeouts::{RouteTimeouts, forward_timeouts};
use crate::routes::upgrade::{Protocol, upgrades};
use crate::shape::{Named, SingleOr};
use crate::upstreams::Upstreams;
use crate::upstreams::server::Target;
use crate::value::Scalar;
use crate::value::answers::HeadersWord;
use crate::value::client::ListedText;
use crate::value::header::HeaderText;
use crate::value::net::{ParameterName, ParameterText};
use crate::value::word::LimitName;

/// A route: its requests, their upstream and their limits.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Route {
    /// The route's name in logs and metrics. Default: methods, host and path.
    pub(crate) name: Option<Scalar<RouteName>>,
    /// The host; `*.example.com` is any host below example.com. Default: any.
    pub(crate) host: Option<Scalar<HostPattern>>,
    /// The path; `{name}` matches one segment, `/**` at the end matches any further segments.
    pub(crate) path: Scalar<PathPattern>,
    /// The methods; GET includes HEAD. Default: any.
    pub(crate) methods: Option<Spanned<Vec<Scalar<Method>>>>,
    /// Parameters of the query, each with the value that it must have. Default: any.
    pub(crate) query: Option<Named<Scalar<ParameterText>, ParameterName>>,
    /// Headers, each with the value that it must have. Default: any.
    pub(crate) request_has: Option<Named<Scalar<HeaderText>, HeaderName>>,
    /// The URL of a server, or the name of an entry under `upstreams`. Required unless the route has `serve`.
    pub(crate) upstream: Option<Scalar<Target>>,
    /// The answer of the gateway itself, in place of an upstream: budgets are the client's own budgets as JSON.
    pub(crate) serve: Option<Scalar<Serve>>,
    /// The limits of the route's requests. A request is charged to all of these limits, or to none.
    pub(crate) limits: Option<Vec<Scalar<LimitName>>>,
    /// Networks, addresses and clients that are answered with 403, in addition to `deny` of the file. Default: none.
    pub(crate) deny: Option<Vec<Scalar<ListedText>>>,
    /// The only networks, addresses and clients that are let through. `allow` of the file must let them through, too. Default: all.
    pub(crate) allow: Option<Spanned<Vec<Scalar<ListedText>>>>,
    /// Networks, addresses and clients whose requests the limits of the route do not charge. Default: none.
    pub(crate) exempt: Option<Vec<Scalar<ListedText>>>,
    /// The credentials that requests need: none, api_key, jwt or verified. Requests without them are answered with 401. Default: the
    /// file's.
    pub(crate) require: Option<Scalar<RequireWord>>,
    /// The largest request body. Default: the file's.
    pub(crate) max_body: Option<Scalar<BodyLimit>>,
    /// The rate-limit headers of answers: x-ratelimit, none, or `{ reset, ietf }`. Default: the file's.
    pub(crate) headers: Option<SingleOr<HeadersWord, Headers>>,
    /// The answer to a request that a limit refuses. Default: the file's.
    pub(crate) reject: Option<WrittenReject>,
    /// The protocols that clients may switch to, such as websocket. Default: none.
    pub(crate) upgrade: Option<Vec<Scalar<Protocol>>>,
    /// Timeouts of this route. Default: the file's.
    pub(crate) timeouts: Option<RouteTimeouts>,
    /// Retries at another server, for requests that a server may have received already. Default: none.
    pub(crate) retries: Option<Spanned<Retries>>,
    /// Edits of the headers of requests to the upstream. Default: none.
    pub(crate) request_headers: Option<WrittenHeaderEdits>,
    /// Edits of the headers of answers. Default: the file's.
    pub(crate) response_headers: Option<WrittenHeaderEdits>,
    /// The first segments of the path, which are removed before the request goes to the upstream. Default: none.
    pub(crate) strip_prefix: Option<Scalar<PathPattern>>,
    /// The host in requests to the upstream: keep, upstream or a name. Default: keep.
    pub(crate) upstream_host: Option<Scalar<UpstreamHost>>,
    /// The target of a redirect for requests without TLS: https or https:PORT. Default: none; requests without TLS are forwarded, too.
    pub(crate) redirect: Option<Scalar<HttpsPort>>,
    /// CORS: the origins whose pages may read the route's answers. Default: the upstream decides.
    pub(crate) cors: Option<Cors>,
    /// Whether the upstream ignores the case of letters in a path, and dots at the end of a segment. Default: false.
    pub(crate) case_insensitive: Option<Scalar<bool>>,
    /// The treatment of %2F and %5C in paths: reject or keep. Default: reject.
    pub(crate) encoded_slashes: Option<Scalar<EncodedSlashes>>,
}

/// A route: its requests, its upstream and its limits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RouteSettings {
    /// The name of the route. No other route has it.
    pub name: String,
    /// The requests that the route takes.
    pub shape: RouteShape,
    /// Whether the upstream ignores the case of a path. `None` if the configuration does not have the key. With `Some(true)`, the route's
    /// path ignores case, too.
    pub case_insensitive: Option<bool>,
    /// The upstream of the route. Routes with the same upstream share this value. `None` if the gateway answers with the client's own budgets.
    pub upstream: Option<Arc<UpstreamSettings>>,
    /// The settings of forwarding.
    pub forward: ForwardSettings,
    /// The CORS rules of the route. `None` if the upstream sends the CORS headers.
    pub cors: Option<CorsSettings>,
    /// The limits, access lists and answers of the route. The limits under `always` come before the route's own limits.
    pub policy: Policy,
}

/// The settings of forwarding for a route.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ForwardSettings {
    /// The timeouts of forwarding.
    pub timeouts: ForwardTimeouts,
    /// The settings of retries. `None` if a request may be sent again only while no server has received any part of it.
    pub retries: Option<RetrySettings>,
    /// The edits of requests and answers.
    pub edits: RouteEdits,
    /// The most bytes of a request's body. `None` means no bound.
    pub max_body: Option<u64>,
    /// The protocols that clients may switch to, in lower case.
    pub upgrades: Box<[Box<str>]>,
}

/// The routes as they are written.
pub(crate) type Routes = Spanned<Vec<Spanned<RouteWithSource>>>;

/// A route in messages: whether its name must be unique, and the place of its name or path.
#[derive(Clone, Copy)]
struct Label {
    is_unique: bool,
    place: Option<Place>,
}

/// The file's defaults for routes.
pub(crate) struct RouteDefaults<'a> {
    pub(crate) clients: &'a Clients,
    pub(crate) sources: &'a KnownClients,
    pub(crate) access: &'a FileAccess,
    pub(crate) unmatched: &'a Policy,
    pub(crate) max_body: Option<u64>,
    pub(crate) timeouts: Timeouts,
    pub(crate) response_headers: &'a HeaderEdits,
    pub(crate) request_id_in_answers: bool,
    /// Whether the gateway can receive requests by https: from a listener with TLS, or from a trusted proxy.
    pub(crate) has_https: bool,
}

/// Reads all routes. Refuses a route that no request can reach.
pub(crate) fn routes(
    check: &mut Check<'_>,
    written: Option<&Routes>,
    rules: &Rules,
    upstreams: &mut Upstreams<'_>,
    defaults: &RouteDefaults<'_>,
) -> Vec<RouteSettings> {
    let mut names = HashMap::new();
    let mut routes: Vec<(RouteSettings, Option<Place>)> = Vec::new();
    for route in written.iter().flat_map(|routes| &routes.value) {
        let RouteWithSource(route) = &route.value;
        let Some((settings, label)) = route_settings(check, route, rules, defaults, upstreams)
        else {
            continue;
        };
        one_name(check, &mut names, &settings.name, label);
        routes.push((settings, label.place));
    }
    if written.is_none_or(|routes| routes.value.is_empty()) {
        let example = "routes: [{ path: /**, upstream: http://127.0.0.1:9000 }]";
        let problem = Problem::new(written.and_then(|routes| routes.place), "there is no route");
        check.refuse(problem.note(format!("at least one is needed, such as `{example}`")));
    }
    hidden(check, &routes);
    let index = indexed(&routes);
    respelled(check, &routes, &index);
    other_hosts(check, &routes, &index);
    prefixes(check, &routes);
    guards(check, &routes, defaults.clients);
    routes.into_iter().map(|(settings, _)| settings).collect()
}

fn route_settings(
    check: &mut Check<'_>,
    route: &Route,
    rules: &Rules,
    defaults: &RouteDefaults<'_>,
    upstreams: &mut Upstreams<'_>,
) -> Option<(RouteSettings, Label)> {
    let unmatched = defaults.unmatched;
    let given = route.name.as_ref().map(|scalar| check.read(scalar));
    let host = route.host.as_ref().map(|scalar| check.read(scalar));
    let case_insensitive = check.read_some(route.case_insensitive.as_ref());
    let path = check.read(&route.path).map(|path| match case_insensitive {
        Some(true) => path.ignoring_case(),
        Some(false) | None => path,
    });
    let own_methods = route
        .methods
        .as_ref()
        .map(|written| methods(check, written, None, NO_METHODS))
        .or_else(|| usual_methods(route));
    let conditions = conditions(check, route, defaults.clients);
    let upstream = upstream(check, route, upstreams);
    let own = check.read_some(route.max_body.as_ref());
    let servers = upstream.iter().flatten().next();
    let servers = servers.map(|upstream| &*upstream.servers);
    let served = own_methods.clone().map(with_head);
    let edits = edits::edits(check, route, path.as_ref(), defaults);
    let upgrades = upgrades(check, route.upgrade.as_deref(), servers.unwrap_or_default());
    let timeouts = forward_timeouts(check, route, defaults.timeouts);
    let retries = route.retries.as_ref();
    let retries = retries.and_then(|retries| {
        retry_settings(check, retries, timeouts.upstream.answer, served.as_deref())
    });
    let encoded_slashes = check.read_some(route.encoded_slashes.as_ref());
    if let Some(path) = &path {
        literal(check, path, route.path.place, encoded_slashes);
    }
    let (headers, reject) = (route.headers.as_ref(), route.reject.as_ref());
    let answers = answers(check, headers, reject, &unmatched.answers);
    let written = route.cors.as_ref();
    let headers = cors::readable_headers(answers.headers, defaults.request_id_in_answers);
    let cors = written.map(|written| cors::cors(check, written, served.as_deref(), headers));
    let scalars = route.limits.as_deref().unwrap_or_default();
    let own_rules = rules_of(check, scalars, rules, "this route");
    let written = WrittenAccess {
        exempt: route.exempt.as_deref(),
        deny: route.deny.as_deref(),
        allow: route.allow.as_ref(),
        require: route.require.as_ref(),
    };
    let of_file = defaults.access.lists.require;
    let lists = access_lists(check, written, defaults.sources, of_file);
    // If the host or the path was refused, the function ends here. An earlier return would hide errors in other keys of the route.
    let host = host.map_or(Some(None), |host| host.map(Some))?;
    let path = path?;
    let name = match given {
        Some(name) => name?.0,
        None => describe(
            own_methods.as_deref(),
            host.as_ref(),
            &path,
            conditions.as_deref(),
        ),
    };
    let label = Label {
        // A route without `name` and conditions gets its name from methods, host and path. If two such names are equal, one route hides the
        // other, and `hidden` refuses the hidden route.
        is_unique: route.name.is_some() || conditions.is_some(),
        place: route
            .name
            .as_ref()
            .map_or(route.path.place, |scalar| scalar.place),
    };
    let all = charged(check, &unmatched.rules, own_rules, route);
    if all.is_empty() && scalars.is_empty() {
        let problem = Problem::new(label.place, format!("the route `{name}` has no limit"));
        check.warn(problem.note("list one under its `limits`, or under `always`"));
    }
    let policy = Policy {
        route: Arc::from(name.as_str()),
        access: policy_access(defaults.access, &lists, &all, unmatched.always),
        rules: all.into(),
        always: unmatched.always,
        answers,
    };
    exempt_from_nothing(check, written, &policy);
    let settings = RouteSettings {
        policy,
        name,
        shape: RouteShape {
            host,
            path,
            methods: served,
            conditions,
            encoded_slashes: encoded_slashes.unwrap_or_default(),
        },
        case_insensitive,
        upstream: upstream?,
        forward: ForwardSettings {
            timeouts,
            retries,
            edits,
            max_body: own.map_or(defaults.max_body, |BodyLimit(own)| own),
            upgrades,
        },
        cors: cors.map_or(Some(None), |cors| cors.map(Some))?,
    };
    Some((settings, label))
}

/// Returns the rules of a route: the limits under `always`, then its own limits, each once.
fn charged(check: &mut Check<'_>, always: &[Rule], own: Vec<Rule>, route: &Route) -> Vec<Rule> {
    let mut all = always.to_vec();
    all.extend(own.into_iter().filter(|rule| !has_limit(always, rule)));
    if all.len() > MAX_CHARGES {
        let scalar = route.limits.iter().flatten().last();
        let place = scalar.map_or(route.path.place, |scalar| scalar.place);
        let message = format!("a request of this route would meet {} limits", all.len());
        let note = format!("the most is {MAX_CHARGES}, those under `always` included");
        check.refuse(Problem::new(place, message).note(note));
    }
    all
}

/// Refuses two routes with the same name, because logs, metrics and keys identify a route by its name.
fn one_name(check: &mut Check<'_>, names: &mut HashMap<String, Label>, name: &str, label: Label) {
    if let Some(first) = names.insert(name.to_owned(), label)
        && (label.is_unique || first.is_unique)
    {
        let problem = Problem::new(label.place, format!("two routes are called `{name}`"));
        let problem = problem.first_at(check.source, first.place);
        check.refuse(problem.note("give each a `name` of its own"));
    }
}

/// Makes a name for a route without `name`, from its methods, host and path, and from the names in its conditions.
fn describe(
    methods: Option<&[Method]>,
    host: Option<&impl ToString>,
    path: &impl ToString,
    conditions: Option<&Conditions>,
) -> String {
    let mut name = String::new();
    if let Some(methods) = methods {
        let methods: Vec<_> = methods.iter().map(Method::as_str).collect();
        name = methods.join(",") + " ";
    }
    name += &host.map_or_else(String::new, ToString::to_string);
    name += &path.to_string();
    if let Some(conditions) = conditions {
        conditions.describe(&mut name);
    }
    name
}
