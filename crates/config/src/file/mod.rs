//! The configuration as written: the top-level keys, and the order in which the check reads them.
//!
//! Unknown keys are refused everywhere. Single values are kept as written ([`Scalar`]): a [`File`] is well-formed, but its values are not
//! checked yet. Comments on keys, here and in the other folders, become part of `tidegate schema`. Editors show them to authors of
//! configurations.

mod fixed;

use std::net::SocketAddr;

use crate::yaml::{ConfigError, Source, Spanned, Warning};
use aws_lc_rs::digest::{SHA256, digest};
use http::{HeaderName, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_identity::AccessLists;
use tidegate_tower::{Answers, Policy};

use crate::access::list::KnownClients;
use crate::access::networks;
use crate::access::{FileAccess, RequireWord, WrittenAccess, access_lists, policy_access};
use crate::admin::Admin;
use crate::answers::{Headers, WrittenReject};
use crate::bounds::timeouts::WrittenTimeouts;
use crate::bounds::{BodyLimit, MemoryLimit, timeouts};
use crate::check::Check;
use crate::clients::{WrittenClients, WrittenSource};
use crate::decisions::Decisions;
use crate::fixed::Fixed;
use crate::limits::WrittenLimit;
use crate::limits::plans::Plans;
use crate::listeners::Listen;
use crate::log::Log;
use crate::nothing::without_value;
use crate::routes::edits::{Way, WrittenHeaderEdits, header_edits};
use crate::routes::health::{HealthPath, health};
use crate::routes::{RouteDefaults, Routes};
use crate::settings::Settings;
use crate::shape::{Named, SingleOr};
use crate::store::redis::Redis;
use crate::store::{SecretText, Store, StoreWord};
use crate::tracing::Tracing;
use crate::upstreams::Upstream;
use crate::upstreams::own::own_addresses;
use crate::value::Scalar;
use crate::value::answers::HeadersWord;
use crate::value::client::ListedText;
use crate::value::net::Network;
use crate::value::number::Connections;
use crate::value::word::{FilePath, LimitName};
use crate::{
    admin, answers, bounds, clients, decisions, limits, listeners, log, routes, store, tracing,
    upstreams,
};

/// The configuration of a tidegate gateway.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "tidegate configuration")]
pub(crate) struct File {
    /// The addresses for requests: an address, `{ address, tls }`, or a list of these. Default: 127.0.0.1:8080.
    pub(crate) listen: Option<Listen>,
    /// The admin port, for health checks, metrics, the status page and the budgets of clients: an address, or `{ address, token }`.
    /// Default: 127.0.0.1:9901.
    pub(crate) admin: Option<SingleOr<SocketAddr, Admin>>,
    /// Peers whose headers about addresses and users are trusted: networks or addresses. Default: none.
    pub(crate) trusted_proxies: Option<Vec<Scalar<Network>>>,
    /// The place of the limits' budgets: `memory`, or `redis: { url, … }`. Default: memory.
    pub(crate) store: Option<SingleOr<StoreWord, Store>>,
    /// The key of the hashes that replace the names of clients in Redis. Default: none.
    pub(crate) secret: Option<Scalar<SecretText>>,
    /// The sources of clients. The first source that finds a valid identity names the client. Default: ip.
    pub(crate) clients: Option<Vec<Spanned<WrittenSource>>>,
    /// The header in which upstreams get the client's name, such as X-Client-Id. The gateway removes this header from requests of clients.
    /// Default: none.
    pub(crate) forward_client: Option<Scalar<HeaderName>>,
    /// Networks, addresses and clients that are answered with 403, before any limit. Default: none.
    pub(crate) deny: Option<Vec<Scalar<ListedText>>>,
    /// A file with more networks and addresses for `deny`, one a line. It is reread when it changes. Default: none.
    pub(crate) deny_file: Option<Scalar<FilePath>>,
    /// The only networks, addresses and clients that are let through. All other requests are answered with 403, before any limit. Default:
    /// all are let through.
    pub(crate) allow: Option<Spanned<Vec<Scalar<ListedText>>>>,
    /// Networks, addresses and clients whose requests no limit charges. Default: none.
    pub(crate) exempt: Option<Vec<Scalar<ListedText>>>,
    /// With `store: memory`, the file for overrides that are set at run time. Default: none; overrides are lost when the process ends.
    pub(crate) overrides_file: Option<Scalar<FilePath>>,
    /// The credentials that requests need: none, api_key, jwt or verified. Requests without them are answered with 401. Default: none.
    pub(crate) require: Option<Scalar<RequireWord>>,
    /// The limits, by name. Each has one budget per client by default, shared by all routes that list the limit.
    pub(crate) limits: Option<Named<WrittenLimit>>,
    /// Quotas that replace the limits' own quotas for a group of clients: by plan, then by limit.
    pub(crate) plans: Option<Plans>,
    /// The limits that charge every request, with or without a route.
    pub(crate) always: Option<Vec<Scalar<LimitName>>>,
    /// The rate-limit headers of answers: x-ratelimit, none, or `{ reset, ietf }`. Default: x-ratelimit.
    pub(crate) headers: Option<SingleOr<HeadersWord, Headers>>,
    /// Whether answers carry the request ID as X-Request-Id. Default: true.
    pub(crate) request_id_in_answers: Option<Scalar<bool>>,
    /// Edits of the headers of answers. If a route has its own `response_headers`, these edits do not apply to it. Default: none.
    pub(crate) response_headers: Option<WrittenHeaderEdits>,
    /// The path at which listeners answer health checks, such as /healthz. Default: none.
    pub(crate) health: Option<Scalar<HealthPath>>,
    /// The answer to a request that a limit refuses. Default: 429 with problem details.
    pub(crate) reject: Option<WrittenReject>,
    /// The routes; the first match wins.
    pub(crate) routes: Option<Routes>,
    /// The answer to a request that no route matches. Default: 404 with problem details.
    pub(crate) unmatched: Option<WrittenReject>,
    /// The listener for decisions about requests that other programs carry: `{ listen, token, rate_limit_service }`. Default: none.
    pub(crate) decisions: Option<Spanned<Decisions>>,
    /// Groups of servers, by name.
    pub(crate) upstreams: Option<Named<Upstream>>,
    /// Timeouts, each at most 31d.
    pub(crate) timeouts: Option<WrittenTimeouts>,
    /// The most open connections of clients. Default: 10000.
    pub(crate) max_connections: Option<Scalar<Connections>>,
    /// The most open connections per address, or per IPv6 /64. Trusted proxies have no bound. Default: no bound.
    pub(crate) max_connections_per_ip: Option<Scalar<Connections>>,
    /// The bound of the process's memory: none, or a size such as 512MB. Near this bound the gateway sheds load. Default: none.
    pub(crate) max_memory: Option<Scalar<MemoryLimit>>,
    /// The largest request body: none for no bound, or a size such as 10MB. Default: none.
    pub(crate) max_body: Option<Scalar<BodyLimit>>,
    /// The log and the access log.
    pub(crate) log: Option<Log>,
    /// Traces of requests: `{ otlp, sample, max_per_second, headers }`. Default: none.
    pub(crate) tracing: Option<Spanned<Tracing>>,
}

impl File {
    fn clients(&self) -> WrittenClients<'_> {
        WrittenClients {
            trusted_proxies: self.trusted_proxies.as_deref(),
            sources: self.clients.as_deref().unwrap_or_default(),
            forward_client: self.forward_client.as_ref(),
        }
    }

    fn access(&self) -> WrittenAccess<'_> {
        WrittenAccess {
            exempt: self.exempt.as_deref(),
            deny: self.deny.as_deref(),
            allow: self.allow.as_ref(),
            require: self.require.as_ref(),
        }
    }

    fn redis(&self) -> Option<&Redis> {
        match &self.store {
            Some(SingleOr::Block(store)) => store.value.redis.as_ref(),
            Some(SingleOr::Single(_)) | None => None,
        }
    }

    /// Returns the names under `always` and under `limits` of each route.
    fn listed_limits(&self) -> impl Iterator<Item = &Scalar<LimitName>> {
        let routes = self.routes.iter().flat_map(|routes| &routes.value);
        let of_routes = routes.flat_map(|route| route.value.0.limits.iter().flatten());
        self.always.iter().flatten().chain(of_routes)
    }
}

/// Makes the settings, or returns all errors. With `before`, refuses changes to parts that only a restart can change.
pub(crate) fn check(
    file: &File,
    source: &Source<'_>,
    env: &dyn Fn(&str) -> Option<String>,
    before: Option<&Fixed>,
) -> Result<(Settings, Vec<Warning>), ConfigError> {
    let mut check = Check::new(source, env);
    without_value(&mut check);
    let settings = settings(&mut check, file);
    if let (Some(settings), Some(before)) = (&settings, before) {
        fixed::unchanged(&mut check, file, &settings.fixed, before);
    }
    match settings {
        Some(settings) if check.problems.is_empty() && check.errors_of_files.is_empty() => {
            let mut warnings = source.warn(check.warnings);
            warnings.extend(check.warnings_of_files);
            Ok((settings, warnings))
        }
        _ => {
            let error = source.refuse(check.problems);
            Err(error.and(check.errors_of_files).naming(check.files))
        }
    }
}

/// Makes the settings part by part. The order matters, because later parts need earlier parts.
fn settings(check: &mut Check<'_>, file: &File) -> Option<Settings> {
    let clients = file.clients();
    let written = file.limits.as_ref();
    let (listen, mut taken) = listeners::addresses(check, file.listen.as_ref());
    let decisions = file.decisions.as_ref();
    let door = decisions.and_then(|written| decisions::listener(check, written, &mut taken));
    let admin = admin::admin(check, file.admin.as_ref(), &mut taken);
    let own = own_addresses(taken, admin.as_ref().map(|admin| admin.address));
    let plans = limits::plans::plan_names(check, file.plans.as_ref());
    let mut callers = clients::clients(check, clients, &plans);
    let sources = KnownClients::of(&callers, clients.has_proxies());
    callers.clients.members = limits::plans::members(check, file.plans.as_ref(), &plans, &sources);
    let deny_file = file.deny_file.as_ref();
    let access = FileAccess {
        lists: access_lists(check, file.access(), &sources, None),
        deny_file: deny_file.and_then(|scalar| networks::deny_file(check, scalar)),
    };
    let (store, shared) = store::store(check, file.store.as_ref());
    let secret = store::secret(check, file.secret.as_ref(), store.as_ref());
    let claims = &callers.claims;
    let (mut limits, mut rules) = limits::limits(check, written, clients, &sources, claims, shared);
    let weights = limits::plans::plans(check, file.plans.as_ref(), &plans, written, &mut rules);
    let files = decisions::files::read(check, decisions, shared, &mut limits, &mut rules);
    // After all limits that other programs can charge, whose positions in the list are their numbers.
    limits.extend(limits::share::shares(
        check,
        written,
        clients,
        claims,
        &weights,
        shared.in_memory,
        &mut rules,
    ));
    listeners::untrusted_proxy(check, file.listen.as_ref(), clients, &listen, &rules);
    listeners::unasked_certificates(check, clients, &listen);
    admin::open_admin(check, file.admin.as_ref(), admin.as_ref());
    store::redis::uncounted_gateways(check, file.redis(), &limits);
    store::redis::useless_sync(check, file.redis(), &limits);
    let always = file.always.as_deref().unwrap_or_default();
    let always = limits::rules_of(check, always, &rules, "`always`");
    let usual = Answers::default();
    let answers = answers::answers(check, file.headers.as_ref(), file.reject.as_ref(), &usual);
    let unmatched = Policy {
        route: "none".into(),
        always: always.len(),
        access: policy_access(&access, &AccessLists::default(), &always, always.len()),
        rules: always.into(),
        answers,
    };
    let version = version(&[check.source.text, &files.texts]);
    let charged = (&*limits, &rules);
    let door = decisions::decisions(
        check,
        decisions,
        door,
        files,
        charged,
        &access,
        &unmatched.answers,
    );
    let no_route = file.unmatched.as_ref();
    let no_route = no_route.map(|answer| answers::refusal(check, answer, StatusCode::NOT_FOUND));
    let request_id_in_answers = check.read_some(file.request_id_in_answers.as_ref());
    let request_id_in_answers = request_id_in_answers.unwrap_or(true);
    let timeouts = timeouts::timeouts(check, file.timeouts.as_ref());
    // The top-level `response_headers` must not edit CORS headers, because the key `cors` of a route sets these headers.
    let way = Way::ToClient { has_cors: true };
    let edits = file.response_headers.as_ref();
    let response_headers = header_edits(check, edits, way, &callers.clients);
    let max_body = check.read_some(file.max_body.as_ref());
    let defaults = RouteDefaults {
        response_headers: &response_headers,
        request_id_in_answers,
        clients: &callers.clients,
        sources: &sources,
        access: &access,
        unmatched: &unmatched,
        max_body: max_body.and_then(|BodyLimit(bytes)| bytes),
        timeouts,
        has_https: clients.has_proxies() || listen.iter().any(|listener| listener.tls.is_some()),
    };
    let mut upstreams = upstreams::upstreams(check, file.upstreams.as_ref(), secret.as_ref(), own);
    let routes = routes::routes(
        check,
        file.routes.as_ref(),
        &rules,
        &mut upstreams,
        &defaults,
    );
    let health = health(check, file.health.as_ref(), &routes);
    upstreams::unused_upstreams(check, &upstreams);
    // The listener for decisions can charge every limit.
    if decisions.is_none() {
        limits::unused_limits(check, written, file.listed_limits());
    }
    limits::plans::unused_plans(check, file.plans.as_ref(), clients);
    let per_ip = file.max_connections_per_ip.as_ref();
    let max_connections = check.read_some(file.max_connections.as_ref());
    let max_connections_per_ip = check.read_some(per_ip);
    bounds::useless_share(check, max_connections, max_connections_per_ip, per_ip);
    let (admin, store, log) = (admin?, store?, log::log(check, file.log.as_ref()));
    let overrides_file = store::overrides_file(check, file.overrides_file.as_ref(), &store);
    let max_memory = check.read_some(file.max_memory.as_ref());
    let fixed = Fixed {
        store: fixed::fixed_store(check, file, &store),
        secret: secret.clone(),
        admin: admin.address,
        log: log.clone(),
        overrides_file: overrides_file.clone(),
    };
    Some(Settings {
        version,
        fixed,
        listen,
        admin,
        clients: callers.clients,
        plans,
        numbers: limits::set::numbers(rules),
        proxy_protocol: callers.proxy_protocol,
        key_files: callers.reread.key_files,
        deny_file: access.deny_file,
        overrides_file,
        jwks: callers.reread.jwks,
        store,
        secret,
        unmatched,
        no_route,
        health,
        response_headers,
        request_id_in_answers,
        limits,
        routes,
        decisions: door,
        timeouts,
        max_connections: max_connections.map(|Connections(number)| number),
        max_connections_per_ip: max_connections_per_ip.map(|Connections(number)| number),
        max_memory: max_memory.and_then(|MemoryLimit(bytes)| bytes),
        log,
        tracing: tracing::tracing(check, file.tracing.as_ref()),
    })
}

/// Returns a hash of texts, in 16 hexadecimal digits.
fn version(texts: &[&str]) -> String {
    let digest = digest(&SHA256, texts.concat().as_bytes());
    let start = digest.as_ref().first_chunk();
    let start = start.map_or(0, |start| u64::from_be_bytes(*start));
    format!("{start:016x}")
}
