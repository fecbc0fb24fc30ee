//! Several gateways as one: counts are summed, and so are the errors of clients.

use std::collections::BTreeMap;

use tidegate_status::document::{
    Client, Hits, Limit, Redis, RequestCounts, Requests, Route, Status, Table, Upstream, Verdicts,
};

/// Clients in a table.
const MOST_CLIENTS: usize = 100;

/// The documents of several gateways as one; none: there is none.
pub fn merged(statuses: impl IntoIterator<Item = Status>) -> Option<Status> {
    statuses.into_iter().reduce(|mut all, one| {
        all.at = all.at.max(one.at);
        let gateway = &mut all.gateway;
        gateway.uptime_seconds = gateway.uptime_seconds.min(one.gateway.uptime_seconds);
        gateway.connections += one.gateway.connections;
        gateway.waiting += one.gateway.waiting;
        gateway.memory_bytes += one.gateway.memory_bytes;
        all.health.state = all.health.state.max(one.health.state);
        all.health.reasons.extend(one.health.reasons);
        all.health.reasons.dedup();
        requests(&mut all.requests, one.requests);
        by_name(&mut all.limits, one.limits, |limit| &limit.name, limit);
        for (all, one) in [
            (&mut all.clients.minute, one.clients.minute),
            (&mut all.clients.start, one.clients.start),
        ] {
            hits(all, one);
        }
        all.clients.near.extend(one.clients.near);
        // As near as the least that any gateway saw.
        let near = &mut all.clients.near;
        near.sort_by(|one, other| {
            let key =
                |it: &tidegate_status::document::Near| (it.name.clone(), it.limit.clone(), it.left);
            key(one).cmp(&key(other))
        });
        near.dedup_by(|next, kept| next.name == kept.name && next.limit == kept.limit);
        near.sort_by_key(|it| (u128::from(it.left) << 32) / u128::from(it.of.max(1)));
        near.truncate(MOST_CLIENTS);
        by_name(&mut all.routes, one.routes, |route| &route.name, route);
        by_name(&mut all.upstreams, one.upstreams, |it| &it.name, upstream);
        all.store.memory_keys += one.store.memory_keys;
        if let (Some(all), Some(one)) = (&mut all.store.redis, one.store.redis) {
            redis(all, &one);
        }
        all.refusals.left_out += one.refusals.left_out;
        all.refusals.recent.extend(one.refusals.recent);
        all.refusals
            .recent
            .sort_by_key(|refusal| std::cmp::Reverse(refusal.at));
        // Gateways on one Redis have the same.
        if one.overrides.count > all.overrides.count {
            all.overrides = one.overrides;
        }
        all.events.extend(one.events);
        all.events.sort_by_key(|event| std::cmp::Reverse(event.at));
        all
    })
}

/// Joins what has the same name, and adds what is new.
fn by_name<T>(all: &mut Vec<T>, more: Vec<T>, name: fn(&T) -> &String, join: fn(&mut T, T)) {
    for one in more {
        match all.iter_mut().find(|known| name(known) == name(&one)) {
            Some(known) => join(known, one),
            None => all.push(one),
        }
    }
}

fn counts(all: &mut BTreeMap<String, u64>, more: BTreeMap<String, u64>) {
    for (word, count) in more {
        *all.entry(word).or_insert(0) += count;
    }
}

fn requests(all: &mut Requests, one: Requests) {
    all.total += one.total;
    counts(&mut all.outcomes, one.outcomes);
    request_counts(&mut all.second, one.second);
    request_counts(&mut all.minute, one.minute);
    // Gateways do not begin their seconds together.
    all.series = None;
}

fn request_counts(all: &mut RequestCounts, one: RequestCounts) {
    let weighted = all.mean_ms * all.all as f64 + one.mean_ms * one.all as f64;
    all.all += one.all;
    all.refused += one.refused;
    all.failed += one.failed;
    all.mean_ms = weighted / all.all.max(1) as f64;
}

fn limit(all: &mut Limit, one: Limit) {
    for (all, one) in [
        (&mut all.total, one.total),
        (&mut all.second, one.second),
        (&mut all.minute, one.minute),
    ] {
        verdicts(all, one);
    }
    counts(&mut all.decided_by, one.decided_by);
    // The same key may be near on several.
    all.near_keys = all.near_keys.max(one.near_keys);
    all.used = [all.used, one.used].into_iter().flatten().reduce(f64::max);
    all.series = None;
}

fn verdicts(all: &mut Verdicts, one: Verdicts) {
    all.admitted += one.admitted;
    all.refused += one.refused;
    all.would_refuse += one.would_refuse;
    all.undecided += one.undecided;
}

fn hits(all: &mut Hits, one: Hits) {
    table(&mut all.admitted, one.admitted);
    table(&mut all.refused, one.refused);
}

/// A client that one of the two does not list has at most what its table says of others.
fn table(all: &mut Table, one: Table) {
    let others = one.others_at_most;
    let mut more: BTreeMap<String, Client> = one
        .top
        .into_iter()
        .map(|client| (client.name.clone(), client))
        .collect();
    for client in &mut all.top {
        match more.remove(&client.name) {
            Some(same) => {
                client.at_least += same.at_least;
                client.at_most += same.at_most;
            }
            None => client.at_most += others,
        }
    }
    all.top.extend(more.into_values().map(|client| Client {
        at_most: client.at_most + all.others_at_most,
        ..client
    }));
    all.total += one.total;
    all.others_at_most += others;
    all.top
        .sort_by_key(|client| std::cmp::Reverse((client.at_least, client.at_most)));
    let cut = all
        .top
        .iter()
        .skip(MOST_CLIENTS)
        .map(|client| client.at_most);
    all.others_at_most = all.others_at_most.max(cut.max().unwrap_or_default());
    all.top.truncate(MOST_CLIENTS);
}

fn route(all: &mut Route, one: Route) {
    all.total += one.total;
    counts(&mut all.outcomes, one.outcomes);
    request_counts(&mut all.second, one.second);
    request_counts(&mut all.minute, one.minute);
}

fn upstream(all: &mut Upstream, one: Upstream) {
    all.ejections += one.ejections;
    all.retries += one.retries;
    for server in one.servers {
        match all
            .servers
            .iter_mut()
            .find(|known| known.address == server.address)
        {
            Some(known) => {
                known.in_flight += server.in_flight;
                known.failures = known.failures.max(server.failures);
                if known.state == "healthy" {
                    known.state = server.state;
                }
            }
            None => all.servers.push(server),
        }
    }
}

fn redis(all: &mut Redis, one: &Redis) {
    let weighted = all.mean_ms * all.calls as f64 + one.mean_ms * one.calls as f64;
    all.is_up &= one.is_up;
    all.calls += one.calls;
    all.errors += one.errors;
    all.mean_ms = weighted / all.calls.max(1) as f64;
    if all.nodes.is_empty() {
        all.nodes.clone_from(&one.nodes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(top: &[(&str, u64, u64)], others_at_most: u64, total: u64) -> Status {
        let mut status = Status::default();
        let clients = top.iter().map(|(name, at_least, at_most)| Client {
            name: (*name).to_owned(),
            at_least: *at_least,
            at_most: *at_most,
            ..Client::default()
        });
        status.clients.minute.refused = Table {
            total,
            others_at_most,
            top: clients.collect(),
        };
        status
    }

    #[test]
    fn figures_and_errors_of_clients_are_summed() {
        let one = of(&[("a", 10, 12), ("b", 5, 6)], 2, 30);
        let other = of(&[("c", 9, 9), ("a", 1, 1)], 1, 20);
        let merged = merged([one, other]).unwrap();
        let table = &merged.clients.minute.refused;
        let top: Vec<_> = table
            .top
            .iter()
            .map(|it| (it.name.as_str(), it.at_least, it.at_most))
            .collect();
        assert_eq!(top, [("a", 11, 13), ("c", 9, 11), ("b", 5, 7)]);
        assert_eq!((table.total, table.others_at_most), (50, 3));
        assert!(super::merged([]).is_none());
    }

    #[test]
    fn no_more_are_listed_than_one_lists() {
        let names: Vec<String> = (0..160).map(|n| format!("client-{n}")).collect();
        let part = |names: &[String], count| {
            let top: Vec<_> = names
                .iter()
                .map(|name| (name.as_str(), count, count))
                .collect();
            of(&top, 0, count * 80)
        };
        let merged = merged([part(&names[..80], 7), part(&names[80..], 5)]).unwrap();
        let table = &merged.clients.minute.refused;
        assert_eq!(table.top.len(), 100);
        assert_eq!(
            table.others_at_most, 5,
            "those that are cut off may have so much"
        );
    }
}
