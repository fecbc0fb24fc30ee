//! Merges the documents of several gateways. Counts are added up. A client's count is between two bounds, `at_least` and `at_most`, and
//! these bounds are added up, too.

mod clients;
mod differences;
mod services;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use tidegate_status::document::{
    Gateway, Limit, Overrides, Refusals, RequestCounts, Requests, Route, Status, Verdicts,
};

use differences::Differences;

/// The most entries in each of these lists of a document: refusals, events, overrides and plans.
const MOST: usize = 100;

/// Merges the documents of several gateways. Returns `None` if there are no documents.
pub fn merged(statuses: impl IntoIterator<Item = Status>) -> Option<Status> {
    let mut statuses = statuses.into_iter();
    let mut all = statuses.next()?;
    let mut differences = Differences::default();
    differences.add(&all);
    let mut is_sum = false;
    for one in statuses {
        is_sum = true;
        differences.add(&one);
        join(&mut all, one);
    }
    if is_sum {
        // Drops the series: the seconds of gateways do not begin at the same time, so series cannot be added up.
        all.drop_series();
        clients::bound(&mut all.clients);
        differences.say(&mut all.health);
    }
    Some(all)
}

fn join(all: &mut Status, one: Status) {
    all.at = all.at.max(one.at);
    all.tick = all.tick.min(one.tick);
    gateway(&mut all.gateway, &one.gateway);
    all.health.state = all.health.state.max(one.health.state);
    for reason in one.health.reasons {
        if !all.health.reasons.contains(&reason) {
            all.health.reasons.push(reason);
        }
    }
    requests(&mut all.requests, one.requests);
    by_name(&mut all.limits, one.limits, |limit| &limit.name, limit);
    clients::join(&mut all.clients, one.clients);
    by_name(&mut all.routes, one.routes, |route| &route.name, route);
    by_name(
        &mut all.upstreams,
        one.upstreams,
        |it| &it.name,
        services::upstream,
    );
    services::store(&mut all.store, one.store);
    refusals(&mut all.refusals, one.refusals);
    overrides(&mut all.overrides, one.overrides);
    all.events.extend(one.events);
    all.events.sort_by_key(|event| Reverse(event.at));
    all.events.truncate(MOST);
}

/// Joins entries with the same name, and adds new entries.
fn by_name<T>(all: &mut Vec<T>, more: Vec<T>, name: fn(&T) -> &String, join: fn(&mut T, T)) {
    for one in more {
        match all.iter_mut().find(|entry| name(entry) == name(&one)) {
            Some(entry) => join(entry, one),
            None => all.push(one),
        }
    }
}

fn add(all: &mut u64, more: u64) {
    *all = all.saturating_add(more);
}

fn counts(all: &mut BTreeMap<String, u64>, more: BTreeMap<String, u64>) {
    for (word, count) in more {
        add(all.entry(word).or_default(), count);
    }
}

fn gateway(all: &mut Gateway, one: &Gateway) {
    all.configured_at = all.configured_at.max(one.configured_at);
    all.uptime_seconds = all.uptime_seconds.min(one.uptime_seconds);
    add(&mut all.connections, one.connections);
    add(&mut all.waiting, one.waiting);
    // `memory_bytes` is 0 if a gateway has no figure for its memory. If one gateway has no figure, the sum has no figure.
    all.memory_bytes = match (all.memory_bytes, one.memory_bytes) {
        (0, _) | (_, 0) => 0,
        (all, one) => all.saturating_add(one),
    };
    // If the memory of one gateway has no bound, the sum has no bound.
    let bounds = all.memory_max_bytes.zip(one.memory_max_bytes);
    all.memory_max_bytes = bounds.map(|(all, one)| all.saturating_add(one));
}

fn requests(all: &mut Requests, one: Requests) {
    add(&mut all.total, one.total);
    counts(&mut all.outcomes, one.outcomes);
    request_counts(&mut all.second, one.second);
    request_counts(&mut all.minute, one.minute);
}

fn request_counts(all: &mut RequestCounts, one: RequestCounts) {
    all.mean_ms = mean((all.mean_ms, all.all), (one.mean_ms, one.all));
    add(&mut all.all, one.all);
    add(&mut all.refused, one.refused);
    add(&mut all.failed, one.failed);
}

/// Returns the mean of two means, weighted by their counts.
fn mean((all, of_all): (f64, u64), (one, of_one): (f64, u64)) -> f64 {
    let count = of_all.saturating_add(of_one).max(1);
    (all * of_all as f64 + one * of_one as f64) / count as f64
}

fn limit(all: &mut Limit, one: Limit) {
    // The limit is shown as observed only if all gateways only observe it.
    all.observed &= one.observed;
    for route in one.routes {
        if !all.routes.contains(&route) {
            all.routes.push(route);
        }
    }
    verdicts(&mut all.total, one.total);
    verdicts(&mut all.second, one.second);
    verdicts(&mut all.minute, one.minute);
    counts(&mut all.decided_by, one.decided_by);
    // A key may be near its limit on several gateways. A sum would count the key more than once, so the largest number is kept.
    all.near_keys = all.near_keys.max(one.near_keys);
    // The same holds for a client that uses several gateways.
    all.clients = all.clients.max(one.clients);
    all.used_shares
        .resize(all.used_shares.len().max(one.used_shares.len()), 0);
    for (all, one) in all.used_shares.iter_mut().zip(one.used_shares) {
        add(all, one);
    }
    all.level = [all.level, one.level]
        .into_iter()
        .flatten()
        .reduce(f64::min);
    all.used = [all.used, one.used].into_iter().flatten().reduce(f64::max);
}

fn verdicts(all: &mut Verdicts, one: Verdicts) {
    add(&mut all.admitted, one.admitted);
    add(&mut all.refused, one.refused);
    add(&mut all.would_refuse, one.would_refuse);
    add(&mut all.undecided, one.undecided);
}

fn route(all: &mut Route, one: Route) {
    add(&mut all.total, one.total);
    counts(&mut all.outcomes, one.outcomes);
    request_counts(&mut all.second, one.second);
    request_counts(&mut all.minute, one.minute);
}

fn refusals(all: &mut Refusals, one: Refusals) {
    add(&mut all.left_out, one.left_out);
    all.recent.extend(one.recent);
    all.recent.sort_by_key(|refusal| Reverse(refusal.at));
    all.recent.truncate(MOST);
}

fn overrides(all: &mut Overrides, one: Overrides) {
    // Gateways that use the same Redis have the same overrides, but may read a change at different times. So the larger list is kept.
    if all.kept == "redis" && one.kept == "redis" {
        if one.count > all.count {
            *all = one;
        }
        return;
    }
    all.count = all.count.saturating_add(one.count);
    all.latest.extend(one.latest);
    all.latest.truncate(MOST);
    for plan in one.plans {
        if !all.plans.contains(&plan) && all.plans.len() < MOST {
            all.plans.push(plan);
        }
    }
}
