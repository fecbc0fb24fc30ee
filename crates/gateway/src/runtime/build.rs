//! The parts that outlive every plan, and make a snapshot from each plan.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

use http::HeaderName;
use jiff::Timestamp;
use tidegate_store::Store;
use tidegate_tower::{Hasher, Overrides, Policy, RateLimitLayer, WaitQueues};

use super::budgets::Budgets;
use super::fixed;
use super::limit_keys::LimitKeys;
use super::snapshot::Snapshot;
use super::start_error::StartError;
use crate::forward::{Forwarding, ReadHeaders};
use crate::keys::jwks::Jwks;
use crate::request::cors::Cors;
use crate::request::health::Health;
use crate::request::own_headers::OwnHeaders;
use crate::request::routes::Routes;
use crate::stack::{Route, Stack};
use tidegate_config::Plan;
use tidegate_config::routes::RoutePlan;
use tidegate_net::descriptors::DEFAULT_CONNECTIONS;
use tidegate_overrides::LiveOverrides;
use tidegate_server::{ListenerName, Overload, Settings, Timeouts};
use tidegate_telemetry::RequestIds;
use tidegate_telemetry::access_log::AccessLog;
use tidegate_telemetry::metrics::{GatewayMetrics, RouteMetrics};
use tidegate_telemetry::traces::Traces;
use tidegate_upstream::{Retries, Upstream};

/// The parts that outlive every plan: the state of limits, and the counters.
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
}

impl Runtime {
    /// Makes every part that `plan` needs. Takes three things from `before`: keys of tokens, unchanged upstreams, and the last uses of API
    /// keys.
    pub(crate) fn snapshot(
        &self,
        plan: Plan,
        before: Option<&Snapshot>,
    ) -> Result<Snapshot, StartError> {
        let limit_keys = LimitKeys::of(&plan);
        let fixed = fixed::fingerprints(&plan);
        let known = before.map_or(&[][..], |before| &before.jwks);
        let jwks = plan.jwks.into_iter().map(|plan| Jwks::new(plan, known));
        let jwks = jwks.map(|set| set.map(Arc::new));
        let jwks = jwks.collect::<io::Result<_>>();
        let jwks = jwks.map_err(StartError::Authorities)?;
        let overrides = Overrides {
            table: self.overrides.table.clone(),
            plans: plan.plans,
            numbers: plan.numbers,
        };
        if let Some(before) = before {
            plan.clients.take_key_uses(&before.stack.clients);
        }
        let metrics = &self.metrics;
        let traces = before.map(|before| &before.stack.traces);
        let traces = Traces::start(plan.tracing, traces, || metrics.traces());
        let traces = traces.map_err(StartError::Collector)?;
        let upstreams = upstreams(&plan.routes, before, metrics);
        let matched = matched_headers(&plan.routes);
        let unmatched = plan.unmatched;
        let routes = plan.routes.iter().map(|route| route.policy.clone());
        let policies: Vec<Policy> = std::iter::once(unmatched.clone()).chain(routes).collect();
        let budgets = Budgets {
            policies,
            clients: Arc::new(plan.clients),
            hasher: self.hasher.clone(),
            store: self.store.clone(),
            overrides,
        };
        let limits = budgets.limits();
        let limits: HashSet<_> = limits.iter().map(|limit| limit.id()).collect();
        self.store.memory().divide(limits.len());
        let make = |route| self.route(route, &budgets, &upstreams, &matched);
        let route_metrics = RouteMetrics::new(metrics, &unmatched.route, unmatched.rules.iter());
        let stack = Stack {
            routes: Routes::new(&plan.routes, make),
            unmatched_metrics: Arc::new(route_metrics),
            access: unmatched.access.clone(),
            overrides: self.overrides.table.clone(),
            unmatched: self.limits(&budgets, unmatched, false),
            no_route: plan.no_route.map(Arc::new),
            clients: budgets.clients.clone(),
            metrics: metrics.clone(),
            access_log: self.access_log.clone(),
            traces,
            request_ids: self.request_ids.clone(),
            request_id_in_answers: plan.request_id_in_answers,
            health: plan
                .health
                .map(|path| Arc::new(Health::new(path, self.store.clone(), plan.limits))),
            own_headers: OwnHeaders::of(&plan.response_headers),
            overload: self.overload.clone(),
        };
        let names = ListenerName::all(plan.listen.iter().map(|listener| listener.address));
        let protections = plan.listen.into_iter().map(|listener| listener.tls);
        let server = Settings {
            listeners: names.into_iter().zip(protections).collect(),
            max_connections: plan.max_connections.unwrap_or(DEFAULT_CONNECTIONS),
            max_connections_per_ip: plan.max_connections_per_ip,
            proxy_protocol: plan.proxy_protocol,
            timeouts: Timeouts {
                header: plan.timeouts.header,
                idle: plan.timeouts.idle,
                slow: plan.timeouts.slow,
            },
            drain: plan.timeouts.drain,
        };
        Ok(Snapshot {
            stack,
            budgets,
            admin: plan.admin,
            server,
            max_memory: plan.max_memory,
            key_files: plan.key_files,
            deny_file: plan.deny_file,
            jwks,
            upstreams,
            limit_keys,
            fixed,
            version: plan.version,
            since: Timestamp::now(),
        })
    }

    fn route(
        &self,
        plan: &RoutePlan,
        budgets: &Budgets,
        upstreams: &HashMap<Arc<str>, Arc<Upstream>>,
        matched: &[HeaderName],
    ) -> Route {
        let (clients, rules) = (&budgets.clients, &plan.policy.rules);
        let reads_bodies = rules.iter().any(|rule| rule.cost.path().is_some());
        let metrics = RouteMetrics::new(&self.metrics, &plan.policy.route, rules.iter());
        let metrics = Arc::new(metrics);
        let forwarding = Forwarding {
            settings: plan.forward.clone(),
            upstream: upstreams[&plan.upstream.name].clone(),
            retries: plan.forward.retries.map(Retries::new),
            clients: clients.clone(),
            read: Arc::new(ReadHeaders::new(clients, rules, matched)),
            body_costs: reads_bodies.then(|| metrics.clone()),
            request_bytes: metrics.request_bytes(),
            slow_bodies: self.metrics.connections().slow_bodies(),
        };
        Route {
            name: plan.policy.route.clone(),
            pattern: plan.shape.path.to_string().into(),
            limits: self.limits(budgets, plan.policy.clone(), forwarding.needs_client()),
            forwarding: Arc::new(forwarding),
            cors: plan.cors.as_ref().map(Cors::new),
            own_headers: OwnHeaders::of(&plan.forward.edits.response_headers),
            metrics,
        }
    }

    fn limits(&self, budgets: &Budgets, policy: Policy, tells_client: bool) -> RateLimitLayer {
        RateLimitLayer::with_overrides(
            policy,
            budgets.clients.clone(),
            self.hasher.clone(),
            self.store.clone(),
            self.wait_queues.clone(),
            budgets.overrides.clone(),
            tells_client,
        )
    }
}

/// Returns the upstreams that routes use, by name.
fn upstreams(
    routes: &[RoutePlan],
    before: Option<&Snapshot>,
    metrics: &GatewayMetrics,
) -> HashMap<Arc<str>, Arc<Upstream>> {
    let mut upstreams = HashMap::new();
    for plan in routes.iter().map(|route| &route.upstream) {
        let upstream = upstreams.entry(plan.name.clone());
        upstream.or_insert_with(|| {
            let known = before.and_then(|before| before.upstreams.get(&plan.name));
            let known = known.filter(|upstream| upstream.plan() == &**plan);
            known.cloned().unwrap_or_else(|| {
                Arc::new(Upstream::start(plan.clone(), metrics.upstream(&plan.name)))
            })
        });
    }
    upstreams
}

/// Returns the headers that choose routes. Every route needs the list, so that no upstream mistakes another header for a listed one.
fn matched_headers(routes: &[RoutePlan]) -> Vec<HeaderName> {
    let conditions = routes
        .iter()
        .filter_map(|route| route.shape.conditions.as_ref());
    let headers = conditions.flat_map(|conditions| &conditions.headers);
    let mut names: Vec<_> = headers.map(|(name, _)| name.clone()).collect();
    names.sort_by(|one, other| one.as_str().cmp(other.as_str()));
    names.dedup();
    names
}
