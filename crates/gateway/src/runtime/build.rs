//! The parts that outlive every reload. They make a snapshot from settings.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use http::HeaderName;
use jiff::Timestamp;
use tidegate_store::Store;
use tidegate_tower::{BudgetEvents, Hasher, Overrides, Policy, RateLimitLayer, Rule, WaitQueues};

use super::fixed;
use super::limit_keys::LimitKeys;
use super::snapshot::Snapshot;
use super::sockets::listener_names;
use super::start_error::StartError;
use crate::budgets::Budgets;
use crate::doors::Doors;
use crate::doors::rate_limit::refunds::Refunds;
use crate::doors::receipts::Receipts;
use crate::forward::{Forwarding, ReadHeaders};
use crate::keys::jwks::Jwks;
use crate::request::cors::Cors;
use crate::request::health::Health;
use crate::request::own_headers::OwnHeaders;
use crate::request::routes::Routes;
use crate::stack::{AnswerSource, DoorMetrics, Route, Stack};
use tidegate_config::routes::RouteSettings;
use tidegate_config::{DecisionsSettings, Settings};
use tidegate_net::descriptors::DEFAULT_CONNECTIONS;
use tidegate_overrides::LiveOverrides;
use tidegate_server::{ConnectionSettings, Overload, Timeouts};
use tidegate_telemetry::access_log::AccessLog;
use tidegate_telemetry::metrics::{GatewayMetrics, RouteMetrics};
use tidegate_telemetry::traces::Traces;
use tidegate_telemetry::{Door, RequestIds};
use tidegate_upstream::{Retries, Upstream};

/// The parts that outlive every reload: the state of limits, and the counters.
#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) store: Store,
    pub(crate) hasher: Hasher,
    pub(crate) wait_queues: WaitQueues,
    pub(crate) metrics: Arc<GatewayMetrics>,
    pub(crate) access_log: AccessLog,
    pub(crate) request_ids: Arc<RequestIds>,
    pub(crate) overload: Arc<Overload>,
    pub(crate) overrides: LiveOverrides,
    pub(crate) receipts: Arc<Receipts>,
    pub(crate) refunds: Arc<Refunds>,
    pub(crate) events: BudgetEvents,
}

impl Runtime {
    /// Makes every part that `settings` needs, with the numbers that overrides give to limits. Reuses parts of the previous snapshot
    /// `before`: the keys of tokens, unchanged upstreams and tracing, and the times of the last uses of API keys.
    pub(crate) fn snapshot(
        &self,
        loaded: Arc<Settings>,
        before: Option<&Snapshot>,
    ) -> Result<Snapshot, StartError> {
        let mut settings = Settings::clone(&loaded);
        let set_numbers = self.overrides.limits.borrow().clone();
        let mut numbers = set_numbers.clone();
        let texts = set_numbers.iter().map(|(name, text)| (&**name, &**text));
        for (limit, reason) in settings.set_numbers(texts) {
            tracing::warn!(limit, reason, "the override of a limit has no effect");
            numbers.remove(limit);
        }
        let same = before.filter(|before| Arc::ptr_eq(&before.settings, &loaded));
        let limit_keys = LimitKeys::of(&settings);
        let fixed = fixed::fingerprints(&settings);
        let (names, door_name) = listener_names(&settings);
        let door_tls = settings.decisions.as_ref();
        let door_tls = door_tls.and_then(|it| it.listener.tls.clone());
        let previous = before.map_or(&[][..], |before| &before.jwks);
        // The key sets of the same settings are still watched.
        let mut jwks = same.map_or_else(Vec::new, |before| before.jwks.clone());
        if same.is_none() {
            for settings in settings.jwks {
                let set = Jwks::new(settings, previous).map_err(StartError::Authorities)?;
                jwks.push(Arc::new(set));
            }
        }
        let overrides = Overrides {
            table: self.overrides.table.clone(),
            plans: settings.plans,
            numbers: settings.numbers,
        };
        // The same settings have the same table of keys, which a file may change at this moment.
        if let (Some(before), None) = (before, same) {
            settings.clients.take_key_uses(&before.stack.clients);
        }
        let metrics = &self.metrics;
        let running = before.map(|before| &before.stack.traces);
        let traces = Traces::start(settings.tracing, running, || metrics.traces())
            .map_err(StartError::Collector)?;
        let upstreams = upstreams(&settings.routes, before, metrics);
        let matched = matched_headers(&settings.routes);
        let unmatched = settings.unmatched;
        let routes = settings.routes.iter().map(|route| route.policy.clone());
        let mut policies: Vec<Policy> = std::iter::once(unmatched.clone()).chain(routes).collect();
        // The limits of descriptors are in no route.
        let of_doors = settings.decisions.as_ref().map(|it| it.policy.clone());
        policies.extend(of_doors);
        let budgets = Arc::new(Budgets {
            policies,
            clients: Arc::new(settings.clients),
            hasher: self.hasher.clone(),
            store: self.store.clone(),
            overrides,
            numbers,
        });
        let rules = budgets.policies.iter().flat_map(|it| it.rules.iter());
        for rule in rules.filter(|rule| rule.notify.is_some()) {
            metrics.budget_events().expect(rule.limit.name());
        }
        let limits = budgets.limits();
        let limits: HashSet<_> = limits.iter().map(|limit| limit.id()).collect();
        self.store.memory().divide(limits.len());
        let route_metrics = RouteMetrics::new(
            metrics,
            &unmatched.route,
            Door::Proxy,
            unmatched.rules.iter(),
        );
        let has_doors = settings.decisions.is_some();
        let unmatched_asks = has_doors.then(|| {
            let rules = unmatched.rules.iter();
            Arc::new(RouteMetrics::new(
                metrics,
                &unmatched.route,
                Door::Ask,
                rules,
            ))
        });
        let ratelimit_files = settings.decisions.as_ref().map(|it| it.files.clone());
        let doors = settings.decisions;
        let doors = doors.map(|it| Arc::new(self.doors(it, &budgets)));
        let stack = Stack {
            routes: Routes::new(&settings.routes, |route| {
                self.route(route, &budgets, &upstreams, &matched, has_doors)
            }),
            unmatched_metrics: Arc::new(route_metrics),
            unmatched_asks,
            access: unmatched.access.clone(),
            overrides: self.overrides.table.clone(),
            unmatched: self.limits(&budgets, unmatched, false),
            no_route: settings.no_route.map(Arc::new),
            clients: budgets.clients.clone(),
            metrics: metrics.clone(),
            access_log: self.access_log.clone(),
            traces,
            request_ids: self.request_ids.clone(),
            request_id_in_answers: settings.request_id_in_answers,
            health: settings
                .health
                .map(|path| Arc::new(Health::new(path, self.store.clone(), settings.limits))),
            own_headers: OwnHeaders::of(&settings.response_headers),
            overload: self.overload.clone(),
        };
        let protections = settings.listen.into_iter().map(|listener| listener.tls);
        let protections = protections.chain([door_tls]);
        let server = ConnectionSettings {
            listeners: names
                .into_iter()
                .chain(door_name)
                .zip(protections)
                .collect(),
            max_connections: settings.max_connections.unwrap_or(DEFAULT_CONNECTIONS),
            max_connections_per_ip: settings.max_connections_per_ip,
            proxy_protocol: settings.proxy_protocol,
            programs: door_name,
            timeouts: Timeouts {
                header: settings.timeouts.header,
                idle: settings.timeouts.idle,
                slow: settings.timeouts.slow,
            },
            drain: settings.timeouts.drain,
        };
        Ok(Snapshot {
            stack,
            budgets,
            admin: settings.admin,
            doors,
            server,
            max_memory: settings.max_memory,
            key_files: settings.key_files,
            deny_file: settings.deny_file,
            ratelimit_files: ratelimit_files.unwrap_or_default(),
            jwks,
            upstreams,
            limit_keys,
            fixed,
            version: settings.version,
            since: same.map_or_else(Timestamp::now, |before| before.since),
            settings: loaded,
            set_numbers,
        })
    }

    fn route(
        &self,
        settings: &RouteSettings,
        budgets: &Arc<Budgets>,
        upstreams: &HashMap<Arc<str>, Arc<Upstream>>,
        matched: &[HeaderName],
        has_doors: bool,
    ) -> Route {
        let (clients, rules) = (&budgets.clients, &settings.policy.rules);
        let reads_bodies = rules.iter().any(|rule| !rule.cost.numbers().is_empty());
        let metrics = |door| {
            let name = &settings.policy.route;
            Arc::new(RouteMetrics::new(&self.metrics, name, door, rules.iter()))
        };
        let doors = has_doors.then(|| DoorMetrics {
            ask: metrics(Door::Ask),
            check: metrics(Door::Check),
        });
        let metrics = metrics(Door::Proxy);
        let source = match &settings.upstream {
            None => AnswerSource::Budgets(budgets.clone()),
            Some(upstream) => AnswerSource::Upstream(Arc::new(Forwarding {
                settings: settings.forward.clone(),
                upstream: upstreams[&upstream.name].clone(),
                retries: settings.forward.retries.map(Retries::new),
                clients: clients.clone(),
                read: Arc::new(ReadHeaders::new(clients, rules, matched)),
                body_costs: reads_bodies.then(|| metrics.clone()),
                request_bytes: metrics.request_bytes(),
                slow_bodies: self.metrics.connections().slow_bodies(),
            })),
        };
        let needs_client = match &source {
            AnswerSource::Upstream(forwarding) => forwarding.needs_client(),
            AnswerSource::Budgets(_) => false,
        };
        Route {
            name: settings.policy.route.clone(),
            pattern: settings.shape.path.to_string().into(),
            reads_requests: rules.iter().any(Rule::reads_request_body),
            limits: self.limits(budgets, settings.policy.clone(), needs_client),
            source,
            cors: settings.cors.as_ref().map(Cors::new),
            own_headers: OwnHeaders::of(&settings.forward.edits.response_headers),
            metrics,
            doors,
        }
    }

    fn doors(&self, settings: DecisionsSettings, budgets: &Budgets) -> Doors {
        let policy = settings.policy;
        let metrics = |door| {
            let (name, rules) = (&policy.route, policy.rules.iter());
            Arc::new(RouteMetrics::new(&self.metrics, name, door, rules))
        };
        let names = policy.rules.iter().enumerate();
        Doors {
            token: settings.token,
            names: names
                .map(|(index, rule)| (rule.limit.name().into(), index))
                .collect(),
            checks: metrics(Door::Check),
            calls: metrics(Door::RateLimitService),
            unmatched: settings
                .domains
                .names()
                .map(|name| (name.into(), self.metrics.unmatched_descriptors(name)))
                .collect(),
            unknown_domain: self.metrics.unmatched_descriptors("unknown"),
            domains: settings.domains,
            receipts: self.receipts.clone(),
            refunds: self.refunds.clone(),
            limits: self.limits(budgets, policy, false),
        }
    }

    fn limits(&self, budgets: &Budgets, policy: Policy, tells_client: bool) -> RateLimitLayer {
        RateLimitLayer::with_overrides(
            policy,
            budgets.clients.clone(),
            self.hasher.clone(),
            self.store.clone(),
            self.wait_queues.clone(),
            (budgets.overrides.clone(), self.events.clone()),
            tells_client,
        )
    }
}

/// Returns the upstreams that routes use, by name.
fn upstreams(
    routes: &[RouteSettings],
    before: Option<&Snapshot>,
    metrics: &GatewayMetrics,
) -> HashMap<Arc<str>, Arc<Upstream>> {
    let mut upstreams = HashMap::new();
    for settings in routes.iter().filter_map(|route| route.upstream.as_ref()) {
        let upstream = upstreams.entry(settings.name.clone());
        upstream.or_insert_with(|| {
            let previous = before.and_then(|before| before.upstreams.get(&settings.name));
            let previous = previous.filter(|upstream| upstream.settings() == &**settings);
            previous.cloned().unwrap_or_else(|| {
                Arc::new(Upstream::start(
                    settings.clone(),
                    metrics.upstream(&settings.name),
                ))
            })
        });
    }
    upstreams
}

/// Returns the headers that choose routes. Every route removes other spellings of these names, because an upstream could mistake them for
/// the exact names.
fn matched_headers(routes: &[RouteSettings]) -> Vec<HeaderName> {
    let conditions = routes
        .iter()
        .filter_map(|route| route.shape.conditions.as_ref());
    let headers = conditions.flat_map(|conditions| &conditions.headers);
    let mut names: Vec<_> = headers.map(|(name, _)| name.clone()).collect();
    names.sort_by(|one, other| one.as_str().cmp(other.as_str()));
    names.dedup();
    names
}
