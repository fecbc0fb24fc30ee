//! The routes: what they match, where they lead, what they are charged to, and whether any request
//! can reach them.

mod guards;
mod hidden;
mod prefixes;
mod respelled;
mod upstreams;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use http::Method;
use tidegate_store::MAX_CHARGES;
use tidegate_tower::{Clients, Policy, Rule};

use super::limits::Rules;
use crate::check::answers::answers;
use crate::check::routes::guards::guards;
use crate::check::routes::hidden::hidden;
use crate::check::routes::prefixes::prefixes;
use crate::check::routes::respelled::respelled;
use crate::check::routes::upstreams::terms::{retry_plan, route_timeouts};
use crate::check::routes::upstreams::{target, unused_upstreams, upstreams};
use crate::file::{self, File};
use crate::plan::{RoutePlan, ServerPlan, Speaks, Timeouts};
use crate::reading::Check;
use crate::routes::edits::WrittenEdits;
use crate::routes::{cors, edits, methods};
use crate::value::{BodyLimit, LimitName, Protocol, Scalar};
use tidegate_yaml::{Place, Problem};

use upstreams::Upstreams;

/// What a route is called before it has a policy, and where its name or path stands.
struct Named {
    name: String,
    is_given: bool,
    place: Option<Place>,
}

/// What routes have from the file, unless they say otherwise.
struct RouteDefaults<'a> {
    clients: &'a Clients,
    unmatched: &'a Policy,
    max_body: Option<u64>,
    timeouts: Timeouts,
}

/// The rules that every request is charged to.
pub(crate) fn always(check: &mut Check<'_>, file: &File, rules: &Rules) -> Vec<Rule> {
    let scalars = file.always.as_deref().unwrap_or_default();
    rules_of(check, scalars, rules, "`always`")
}

pub(crate) fn routes(
    check: &mut Check<'_>,
    file: &File,
    rules: &Rules,
    unmatched: &Policy,
    clients: &Clients,
    timeouts: Timeouts,
) -> Vec<RoutePlan> {
    let max_body = check.read_some(file.max_body.as_ref());
    let BodyLimit(max_body) = max_body.unwrap_or(BodyLimit(None));
    let defaults = RouteDefaults {
        clients,
        unmatched,
        max_body,
        timeouts,
    };
    let mut upstreams = upstreams(check, file);
    let written = file.routes.as_ref();
    let mut names = HashMap::new();
    let mut routes: Vec<(RoutePlan, Option<Place>)> = Vec::new();
    for route in written.iter().flat_map(|routes| &routes.value) {
        let route = &route.value;
        let Some((plan, named)) = route_plan(check, route, rules, &defaults, &mut upstreams) else {
            continue;
        };
        if named.is_given {
            one_name(check, &mut names, &named);
        }
        routes.push((plan, named.place));
    }
    if written.is_none_or(|routes| routes.value.is_empty()) {
        let example = "routes: [{ path: /**, upstream: http://127.0.0.1:9000 }]";
        let problem = Problem::new(written.and_then(|routes| routes.place), "there is no route");
        check.refuse(problem.note(format!("at least one is needed, such as `{example}`")));
    }
    hidden(check, &routes);
    respelled(check, &routes);
    prefixes(check, &routes);
    guards(check, &routes, clients);
    unused_upstreams(check, &upstreams);
    routes.into_iter().map(|(plan, _)| plan).collect()
}

fn route_plan(
    check: &mut Check<'_>,
    route: &file::Route,
    rules: &Rules,
    defaults: &RouteDefaults<'_>,
    upstreams: &mut Upstreams<'_>,
) -> Option<(RoutePlan, Named)> {
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
        .map(|scalars| methods(check, scalars, None));
    let upstream = target(check, &route.upstream, upstreams);
    let own = check.read_some(route.max_body.as_ref());
    let servers = upstream.as_ref().map(|upstream| &*upstream.servers);
    let served = own_methods.clone().map(with_head);
    let edits = WrittenEdits {
        request_headers: route.request_headers.as_ref(),
        response_headers: route.response_headers.as_ref(),
        strip_prefix: route.strip_prefix.as_ref(),
        upstream_host: route.upstream_host.as_ref(),
        redirect: route.redirect.as_ref(),
        has_cors: route.cors.is_some(),
    };
    let edits = edits::edits(check, &edits, path.as_ref(), defaults.clients);
    let upgrades = upgrades(check, route, servers.unwrap_or_default());
    let timeouts = route_timeouts(check, route.timeouts.as_ref(), defaults.timeouts);
    let retries = route.retries.as_ref();
    let retries = retries.and_then(|retries| retry_plan(check, retries));
    let encoded_slashes = check.read_some(route.encoded_slashes.as_ref());
    let (headers, reject) = (route.headers.as_ref(), route.reject.as_ref());
    let answers = answers(check, headers, reject, &unmatched.answers);
    let written = route.cors.as_ref();
    let cors =
        written.map(|written| cors::cors(check, written, served.as_deref(), answers.headers));
    let scalars = route.limits.as_deref().unwrap_or_default();
    let own_rules = rules_of(check, scalars, rules, "this route");
    // What was refused is left out only now, after everything else was read.
    let host = host.map_or(Some(None), |host| host.map(Some))?;
    let path = path?;
    let name = match given {
        Some(name) => name?.0,
        None => describe(own_methods.as_deref(), host.as_ref(), &path),
    };
    let named = Named {
        name: name.clone(),
        is_given: route.name.is_some(),
        place: route
            .name
            .as_ref()
            .map_or(route.path.place, |scalar| scalar.place),
    };
    let all = charged(check, &unmatched.rules, own_rules, route);
    if all.is_empty() && scalars.is_empty() {
        check.warn(
            Problem::new(named.place, format!("the route `{name}` has no limit"))
                .note("list one under its `limits`, or under `always`"),
        );
    }
    let plan = RoutePlan {
        policy: Policy {
            route: Arc::from(name.as_str()),
            rules: all.into(),
            always: unmatched.always,
            answers,
        },
        name,
        host,
        path,
        methods: served,
        upstream: upstream?,
        timeouts,
        retries,
        edits: Arc::new(edits),
        cors: cors.map_or(Some(None), |cors| cors.map(Some))?,
        max_body: own.map_or(defaults.max_body, |BodyLimit(own)| own),
        upgrades,
        case_insensitive,
        encoded_slashes: encoded_slashes.unwrap_or_default(),
    };
    Some((plan, named))
}

/// The rules of the limits that a list names, each of which must be there once.
fn rules_of(
    check: &mut Check<'_>,
    scalars: &[Scalar<LimitName>],
    rules: &Rules,
    whose: &str,
) -> Vec<Rule> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for scalar in scalars {
        let Some(LimitName(name)) = check.read(scalar) else {
            continue;
        };
        let shown = &scalar.raw;
        let Some(rule) = rules.get(&name) else {
            let none = "no limit is defined; define limits under `limits`";
            check.undefined("limit", scalar, rules.keys(), none);
            continue;
        };
        if !seen.insert(name) {
            let message = format!("{whose} lists the limit `{shown}` twice");
            check.refuse(Problem::new(scalar.place, message));
            continue;
        }
        found.extend(rule.clone());
    }
    found
}

/// What a route's requests are charged to: what is always charged, and its own, each once.
fn charged(
    check: &mut Check<'_>,
    always: &[Rule],
    own: Vec<Rule>,
    route: &file::Route,
) -> Vec<Rule> {
    let is_always = |rule: &Rule| always.iter().any(|other| same(other, rule));
    let mut all = always.to_vec();
    all.extend(own.into_iter().filter(|rule| !is_always(rule)));
    if all.len() > MAX_CHARGES {
        let scalar = route.limits.iter().flatten().last();
        let place = scalar.map_or(route.path.place, |scalar| scalar.place);
        let message = format!("a request of this route would meet {} limits", all.len());
        let note = format!("the most is {MAX_CHARGES}, those under `always` included");
        check.refuse(Problem::new(place, message).note(note));
    }
    all
}

/// The protocols that a route's requests may switch to, if its servers can.
fn upgrades(check: &mut Check<'_>, route: &file::Route, servers: &[ServerPlan]) -> Arc<[Box<str>]> {
    let scalars = route.upgrade.as_deref().unwrap_or_default();
    let speaks_http2 = |server: &ServerPlan| matches!(server.speaks, Speaks::Http2);
    if let (Some(scalar), Some(server)) = (
        scalars.first(),
        servers.iter().find(|server| speaks_http2(server)),
    ) {
        let message = format!("{server} speaks HTTP/2, in which no request switches protocols");
        let problem = Problem::new(scalar.place, message);
        check.refuse(problem.note("a server at http:// or https:// can"));
    }
    let read = scalars.iter().filter_map(|scalar| check.read(scalar));
    read.map(|Protocol(name)| name.into()).collect()
}

fn one_name(check: &mut Check<'_>, names: &mut HashMap<String, Option<Place>>, named: &Named) {
    let Some(first) = names.insert(named.name.clone(), named.place) else {
        return;
    };
    let mut problem = Problem::new(
        named.place,
        format!("two routes are called `{}`", named.name),
    );
    if let Some(first) = first {
        problem = problem.note(format!("the first is at {}", check.source.at(first)));
    }
    check.refuse(problem);
}

/// A limit is its name's.
fn same(one: &Rule, other: &Rule) -> bool {
    Arc::ptr_eq(&one.limit, &other.limit)
}

/// The name of a route that is given none: its methods, host and path.
fn describe(
    methods: Option<&[Method]>,
    host: Option<&impl ToString>,
    path: &impl ToString,
) -> String {
    let mut name = String::new();
    if let Some(methods) = methods {
        let methods: Vec<_> = methods.iter().map(Method::as_str).collect();
        name = methods.join(",") + " ";
    }
    name + &host.map_or_else(String::new, ToString::to_string) + &path.to_string()
}

/// Whoever answers GET answers HEAD.
fn with_head(mut methods: Vec<Method>) -> Vec<Method> {
    if methods.contains(&Method::GET) && !methods.contains(&Method::HEAD) {
        methods.push(Method::HEAD);
    }
    methods
}
