//! Metrics of one route. The counters are looked up when the configuration is loaded, so a request only adds to them.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use tidegate_core::{Quota, Verdict};
use tidegate_identity::Client;
use tidegate_status::{Measure, NearLimits};
use tidegate_store::{Decision, Mode, Outcome, Via};
use tidegate_tower::{BodyCost, BodySettled, Decided, Rule};

use super::clients::NumberedLimit;
use super::limits::LimitUse;
use super::requests::RouteRequests;
use super::{
    BodyCostLabels, ClientMetrics, CutLabels, DecisionLabels, Durations, Exemplars, GatewayMetrics,
    RefusedAnswer, StoreMetrics, UnknownPlans,
};
use crate::outcome::{Cut, Door, RequestOutcome, StatusClass};

/// The counters of one route.
#[derive(Debug)]
pub struct RouteMetrics {
    requests: Arc<RouteRequests>,
    name: Arc<str>,
    exemplars: Exemplars,
    upstream: Durations,
    tunnels: Gauge,
    cut_answers: Family<CutLabels, Counter>,
    exempt: Counter,
    limits: Vec<LimitCounters>,
    clients: Arc<ClientMetrics>,
    store: StoreMetrics,
    unknown_keys: Counter,
    unknown_plans: Arc<UnknownPlans>,
    body_costs: Family<BodyCostLabels, Counter>,
}

/// The counters of one limit.
#[derive(Debug)]
struct LimitCounters {
    numbered: NumberedLimit,
    limit_use: LimitUse,
    // Each array has one counter for each decider, in this order: the store (or the gateway, if the limit's mode is not `exact`),
    // `on_failure`, a remembered refusal. `allowed` lacks the last counter.
    allowed: [Counter; 2],
    refused: [Counter; 3],
    undecided: Counter,
}

impl RouteMetrics {
    /// Returns the counters of the route `name`, for requests by this door. The counters of its limits are in the order of `rules`.
    pub fn new<'a>(
        gateway: &GatewayMetrics,
        name: &Arc<str>,
        door: Door,
        rules: impl Iterator<Item = &'a Rule>,
    ) -> Self {
        let counter = |limit: &Arc<str>, verdict, decided_by| {
            let labels = DecisionLabels {
                limit: limit.clone(),
                verdict,
                decided_by,
            };
            let counter = gateway.decisions.get_or_create_owned(&labels);
            gateway.limits.add(limit, verdict, decided_by, &counter);
            counter
        };
        let limits = rules.map(|rule| {
            let limit = &rule.limit;
            let decides = match limit.mode() {
                Mode::Exact => "store",
                Mode::Leased | Mode::Synced | Mode::Local => "gateway",
            };
            let refused = match limit.is_observed() {
                true => "would_refuse",
                false => "refused",
            };
            let limit = Arc::from(limit.name());
            let counters = |verdict| [decides, "on_failure"].map(|by| counter(&limit, verdict, by));
            let [by_store, by_policy] = counters(refused);
            LimitCounters {
                numbered: gateway.clients.numbered(rule, &limit),
                limit_use: gateway.limits.use_of(&limit),
                allowed: counters("allowed"),
                refused: [by_store, by_policy, counter(&limit, refused, "remembered")],
                undecided: counter(&limit, "undecided", "on_failure"),
            }
        });
        Self {
            requests: gateway.requests.of(name, door),
            name: name.clone(),
            exemplars: gateway.exemplars.clone(),
            upstream: gateway.upstream_durations.get(name.clone()),
            tunnels: gateway.tunnels.get(name.clone()),
            cut_answers: gateway.cut_answers.clone(),
            exempt: gateway.exempt.get(name.clone()),
            limits: limits.collect(),
            clients: gateway.clients.clone(),
            store: gateway.store.clone(),
            unknown_keys: gateway.unknown_keys.clone(),
            unknown_plans: gateway.unknown_plans.clone(),
            body_costs: gateway.body_costs.clone(),
        }
    }

    /// Counts a request that has ended. `status` is `None` without an answer.
    pub fn ended(&self, outcome: RequestOutcome, status: Option<StatusCode>, took: Duration) {
        self.requests.ended(outcome, StatusClass::of(status), took);
    }

    /// Returns the counter for the bytes of request bodies.
    pub fn request_bytes(&self) -> Counter {
        self.requests.request_bytes.clone()
    }

    /// Counts bytes of an answer's body.
    #[inline]
    pub fn sent(&self, bytes: u64) {
        self.requests.response_bytes.inc_by(bytes);
    }

    /// Stores the trace of a recorded request as an exemplar. `took` is the duration of the request.
    pub fn recorded(&self, took: Duration, trace_id: u128) {
        self.exemplars.add(&self.name, took, trace_id);
    }

    /// Adds the time from the first attempt to connect to an upstream until the head of its answer.
    pub fn forwarded(&self, took: Duration) {
        self.upstream.observe(took);
    }

    /// Counts an upstream's answer that was cut off.
    pub fn cut(&self, cut: Cut) {
        let (route, by) = (self.name.clone(), cut.label());
        self.cut_answers
            .get_or_create(&CutLabels { route, by })
            .inc();
    }

    /// Counts a tunnel as open until the returned value is dropped.
    pub fn tunnel(&self) -> OpenTunnel {
        self.tunnels.inc();
        OpenTunnel(self.tunnels.clone())
    }

    /// Counts the verdicts of the limits, the client's use, and unknown keys and plans.
    pub fn decided(&self, decided: &Decided) {
        if decided.unknown_key {
            self.unknown_keys.inc();
        }
        if let Some(plan) = &decided.unknown_plan {
            self.unknown_plans.named(plan);
        }
        if decided.exempt_by().is_some() {
            self.exempt.inc();
        }
        if decided.body_cost != BodyCost::NotAsked {
            self.body_cost(decided.body_cost);
        }
        if let Some(decision) = &decided.decision {
            let mut near = NearLimits::default();
            let key = self.clients.key(&decided.client);
            self.verdicts(decided, decision, key, &mut near);
            let added = match decision.outcome {
                // If the answer's body settles the cost, `settled_by_body` adds the cost later.
                Outcome::Admitted if decided.cost > 0 && decided.body_cost != BodyCost::Pending => {
                    Some((Measure::Admitted, decided.cost))
                }
                Outcome::Admitted | Outcome::Unavailable => None,
                Outcome::Refused => {
                    let route = &self.name;
                    let limit = |at: usize| self.limits.get(at).map(|limit| &limit.numbered);
                    self.clients.refused(route, limit, decided);
                    Some((Measure::Refused, 1))
                }
            };
            self.clients.count(&decided.client, key, added, &near);
            if let Some(call) = &decision.call {
                self.store.called(call);
            }
        }
    }

    /// Stores a refusal under its request ID.
    pub fn refused(&self, refused: RefusedAnswer<'_>, decided: Option<&Decided>) {
        let limit = |at: usize| self.limits.get(at).map(|limit| limit.numbered.name.clone());
        let kept = &self.clients.refused;
        kept.add(refused, &self.name, limit, decided);
    }

    /// Adds the cost of a request after the answer's body has settled this cost.
    pub fn settled_by_body(&self, settled: &BodySettled) {
        self.body_cost(settled.result);
        if settled.cost > 0
            && let Some(client) = &settled.client
        {
            let added = Some((Measure::Admitted, settled.cost));
            let key = self.clients.key(client);
            self.clients
                .count(client, key, added, &NearLimits::default());
        }
    }

    /// Counts an answer in whose body the gateway searched for a cost, by the result of the search.
    // Not inlined, because few requests have a cost in the body of the answer. So the common path has more registers.
    #[cold]
    #[inline(never)]
    fn body_cost(&self, cost: BodyCost) {
        let result = match cost {
            BodyCost::NotAsked | BodyCost::Pending => return,
            BodyCost::Unreadable => "unreadable",
            BodyCost::Missing => "missing",
            BodyCost::Left => "left",
            BodyCost::Read => "read",
            BodyCost::ReadOn => "read_on",
        };
        let route = self.name.clone();
        self.body_costs
            .get_or_create(&BodyCostLabels { route, result })
            .inc();
    }

    /// Counts the verdict of each limit, the client with the hash `key`, and the used share of its budget. Adds to `near` each limit of
    /// which the client has a fifth of the quota or less left.
    fn verdicts(&self, decided: &Decided, decision: &Decision, key: u64, near: &mut NearLimits) {
        let is_admitted = decision.outcome == Outcome::Admitted;
        let by = match decision.via {
            Via::Store | Via::Here => 0,
            Via::Fallback => 1,
            Via::Remembered => 2,
        };
        let allowed_by = by.min(1);
        for entry in decided.verdicts() {
            let Some(limit) = self.limits.get(entry.index) else {
                continue;
            };
            if let Some(verdict) = entry.verdict
                && let Some(nearness) = limit.numbered.nearness(entry.limit.quota(), verdict)
            {
                if near.is_full() {
                    self.near_many(&decided.client, key, near);
                }
                near.add(nearness);
            }
            // The verdict of an observed limit counts only if the request was admitted.
            if !is_admitted && entry.limit.is_observed() {
                continue;
            }
            if let Some(verdict) = entry.verdict {
                limit.used(key, entry.limit.quota(), verdict);
            }
            match entry.verdict {
                Some(verdict) if verdict.allowed => limit.allowed[allowed_by].inc(),
                Some(_) => limit.refused[by].inc(),
                // If a remembered refusal or the gateway refused the request, other limits have no verdict. They do not count as undecided.
                None if decision.via != Via::Fallback => continue,
                None => limit.undecided.inc(),
            };
        }
    }

    /// Counts the limits in `near` and empties it, so that it has room for more limits.
    #[cold]
    #[inline(never)]
    fn near_many(&self, client: &Client, key: u64, near: &mut NearLimits) {
        let full = std::mem::take(near);
        self.clients.count(client, key, None, &full);
    }
}

impl LimitCounters {
    /// Counts the client with the hash `key`, and the used share of its budget.
    #[inline]
    fn used(&self, key: u64, quota: &Quota, verdict: &Verdict) {
        self.limit_use.clients.add(key);
        self.limit_use.used.add(quota.capacity(), verdict.remaining);
    }
}

/// A tunnel that counts as open until this value is dropped.
#[derive(Debug)]
pub struct OpenTunnel(Gauge);

impl Drop for OpenTunnel {
    fn drop(&mut self) {
        self.0.dec();
    }
}
