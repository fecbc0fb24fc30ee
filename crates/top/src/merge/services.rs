//! Merges the upstreams and the stores of gateways.

use tidegate_status::document::{Node, Redis, Server, Store, Upstream};

use super::{add, mean};

pub(super) fn upstream(all: &mut Upstream, one: Upstream) {
    add(&mut all.ejections, one.ejections);
    add(&mut all.retries, one.retries);
    for server in one.servers {
        let entry = all
            .servers
            .iter_mut()
            .find(|entry| entry.address == server.address && entry.url == server.url);
        match entry {
            Some(entry) => {
                add(&mut entry.in_flight, server.in_flight);
                entry.failures = entry.failures.max(server.failures);
                if entry.state == "healthy" {
                    entry.state = server.state;
                }
            }
            None => all.servers.push(server),
        }
    }
    all.servers
        .sort_by(|one: &Server, other| one.address.cmp(&other.address));
}

pub(super) fn store(all: &mut Store, one: Store) {
    add(&mut all.memory_keys, one.memory_keys);
    match (&mut all.redis, one.redis) {
        (Some(all), Some(one)) => join(all, one),
        // The gateways in `all` keep their limits in memory, so `all` has no figures of Redis.
        (None, Some(redis)) => {
            all.kind = one.kind;
            all.redis = Some(redis);
        }
        (_, None) => {}
    }
}

/// Joins the figures of Redis from two gateways. Only nodes of a Redis Cluster have an address, which identifies the server. Servers
/// without an address may be different servers, so they keep separate rows.
fn join(all: &mut Redis, one: Redis) {
    all.mean_ms = mean((all.mean_ms, all.calls), (one.mean_ms, one.calls));
    all.is_up &= one.is_up;
    add(&mut all.calls, one.calls);
    add(&mut all.errors, one.errors);
    for node in one.nodes {
        let mut nodes = all.nodes.iter_mut();
        match nodes.find(|entry| entry.address.is_some() && entry.address == node.address) {
            Some(entry) => complete(entry, node),
            None => all.nodes.push(node),
        }
    }
}

/// Copies the figures that `first` lacks from `other`, the same server in another gateway's document.
fn complete(first: &mut Node, other: Node) {
    *first = Node {
        address: other.address,
        memory_bytes: first.memory_bytes.or(other.memory_bytes),
        memory_max_bytes: first.memory_max_bytes.or(other.memory_max_bytes),
        operations_per_second: first.operations_per_second.or(other.operations_per_second),
        script_calls: first.script_calls.or(other.script_calls),
        script_seconds: first.script_seconds.or(other.script_seconds),
        evicted_keys: first.evicted_keys.or(other.evicted_keys),
        uptime_seconds: first.uptime_seconds.or(other.uptime_seconds),
        received_bytes: first.received_bytes.or(other.received_bytes),
        sent_bytes: first.sent_bytes.or(other.sent_bytes),
    };
}
