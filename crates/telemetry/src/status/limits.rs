//! Describes the limits for the document.

use std::collections::{BTreeMap, HashMap};

use tidegate_core::Quota;
use tidegate_status::Series;
use tidegate_status::document::{Limit, LimitSeries, Verdicts};
use tidegate_tower::{Per, Rule};

use super::sample::columns;
use super::{StatusBoard, View};
use crate::metrics::GatewayMetrics;

/// Describes each limit that a route or the listener for decisions uses. Each limit is listed once, in the order of the routes.
pub(super) fn of(view: &View<'_>, sampled: &StatusBoard) -> Vec<Limit> {
    let mut limits: Vec<Limit> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (at, policy) in view.policies.iter().enumerate() {
        for rule in policy.rules.iter() {
            let name = rule.limit.name();
            let place = *places.entry(name).or_insert_with(|| {
                limits.push(one(rule, sampled, view.metrics));
                limits.len() - 1
            });
            // The first policy has no route: it applies to requests that match no route. The policy of decisions follows the routes.
            if (1..view.routes.len()).contains(&at) {
                limits[place].routes.push(policy.route.to_string());
            }
        }
    }
    limits
}

fn one(rule: &Rule, sampled: &StatusBoard, metrics: &GatewayMetrics) -> Limit {
    let limit = &rule.limit;
    let name = limit.name();
    let sample = sampled.sample(name);
    let mut total = Verdicts::default();
    let mut decided_by = BTreeMap::new();
    for count in metrics.limits.verdicts(name) {
        let verdicts = match count.verdict {
            "allowed" => &mut total.admitted,
            "refused" => &mut total.refused,
            "would_refuse" => &mut total.would_refuse,
            _ => &mut total.undecided,
        };
        *verdicts += count.count;
        *decided_by.entry(count.decided_by.to_owned()).or_insert(0) += count.count;
    }
    let series = sampled.limits.get(name);
    let lately = |seconds| series.map_or_else(Verdicts::default, |it| lately(it, seconds));
    Limit {
        name: name.to_owned(),
        algorithm: limit.quota().algorithm().to_owned(),
        per: rule.per.iter().map(Per::to_string).collect(),
        of: limit.quota().capacity(),
        rate: rate(limit.quota()),
        mode: limit.mode().word().to_owned(),
        observed: limit.is_observed(),
        routes: Vec::new(),
        total,
        decided_by,
        second: lately(1),
        minute: lately(60),
        near_keys: sample.near as u64,
        used: sample.used,
        level: sample.level,
        clients: sample.clients,
        used_shares: sampled.used_lately(name),
        series: series.map(|series| {
            columns(series, |[admitted, refused, would_refuse]| LimitSeries {
                admitted,
                refused,
                would_refuse,
            })
        }),
    }
}

fn lately(series: &Series<4>, seconds: usize) -> Verdicts {
    Verdicts {
        admitted: series.lately(0, seconds),
        refused: series.lately(1, seconds),
        would_refuse: series.lately(2, seconds),
        undecided: series.lately(3, seconds),
    }
}

/// Returns the long-term rate of a limit, in units a second. `None` for `concurrency`.
fn rate(quota: &Quota) -> Option<f64> {
    let per_micro = quota.capacity() as f64 / quota.period().max(1) as f64;
    quota.has_reset().then_some(per_micro * 1e6)
}
