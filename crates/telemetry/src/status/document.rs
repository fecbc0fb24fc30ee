//! Makes the document of `/status.json` from counters and samples.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_status::document::{
    Client, Clients, Gateway, Hits, Near, Node, Overrides, Redis, Refusals, RequestSeries,
    Requests, Route, Server, Status, Store, Table, Upstream, VERSION,
};
use tidegate_status::{Measure, Summary, by_turns};

use super::sample::{columns, lately, mean_ms};
use super::{StatusBoard, View, limits, proxies};
use crate::metrics::{ClientMetrics, ClientName, GatewayMetrics, RequestTotals, epoch_ms};
use crate::outcome::RequestOutcome;

/// The most clients in a table.
const MOST_CLIENTS: usize = 100;

pub(super) fn of(view: &View<'_>, sampled: &StatusBoard) -> Status {
    let metrics = view.metrics;
    let clients = metrics.clients();
    Status {
        version: VERSION,
        at: epoch_ms(),
        tick: sampled.tick,
        gateway: Gateway {
            version: crate::program::VERSION.to_owned(),
            configuration: view.configuration.to_owned(),
            configured_at: view.configured_at,
            uptime_seconds: view.uptime,
            connections: view.connections as u64,
            waiting: metrics.waiting() as u64,
            memory_bytes: view.overload.resident(),
            memory_max_bytes: view.max_memory,
        },
        health: sampled.events.health(),
        untrusted_proxies: proxies::list(view),
        requests: requests(view, sampled),
        limits: limits::of(view, sampled),
        clients: stand_out(clients),
        routes: routes(view, sampled),
        upstreams: upstreams(view),
        store: Store {
            kind: match metrics.redis().is_up() {
                Some(_) => "redis".to_owned(),
                None => "memory".to_owned(),
            },
            memory_keys: view.store.memory().usage().keys as u64,
            redis: redis(metrics, sampled),
        },
        refusals: Refusals {
            recent: clients.refusals.list(),
            left_out: clients.refusals.left_out(),
        },
        // The admin port adds the overrides when it serves the document.
        overrides: Overrides::default(),
        events: sampled.events.last.list(),
    }
}

fn requests(view: &View<'_>, sampled: &StatusBoard) -> Requests {
    let outcomes = by_outcome(&view.metrics.requests.totals());
    let series = &sampled.requests;
    Requests {
        total: outcomes.values().sum(),
        outcomes,
        second: lately(series, 1),
        minute: lately(series, 60),
        series: Some(columns(series, |[all, refused, failed]| RequestSeries {
            all,
            refused,
            failed,
        })),
    }
}

fn by_outcome(totals: &RequestTotals) -> BTreeMap<String, u64> {
    RequestOutcome::ALL
        .into_iter()
        .zip(totals.outcomes)
        .filter(|(_, count)| *count > 0)
        .map(|(outcome, count)| (outcome.label().to_owned(), count))
        .collect()
}

fn stand_out(clients: &ClientMetrics) -> Clients {
    let top = clients.hitters.top();
    let hits = |summaries: &[Summary<Arc<ClientName>>; 2]| Hits {
        admitted: table(&summaries[Measure::Admitted as usize]),
        refused: table(&summaries[Measure::Refused as usize]),
    };
    // Many clients near one limit must not displace the clients near another limit. So the list takes one client of each limit in turn.
    let all = clients.hitters.nearest();
    let nearest = by_turns(all, MOST_CLIENTS, |near| near.nearness.limit);
    let near = nearest.filter_map(|near| {
        let (name, is_cut) = near.name.shown();
        Some(Near {
            name,
            is_cut,
            limit: clients.limit(near.nearness.limit)?.to_string(),
            left: near.nearness.left,
            of: near.nearness.of,
        })
    });
    Clients {
        minute: hits(&top.minute),
        start: hits(&top.start),
        near: near.collect(),
    }
}

fn table(summary: &Summary<Arc<ClientName>>) -> Table {
    let (mut top, mut others_at_most) = (Vec::new(), summary.floor());
    for (_, entry) in summary.top(usize::MAX) {
        match &entry.name {
            Some(name) if top.len() < MOST_CLIENTS => {
                let (name, is_cut) = name.shown();
                top.push(Client {
                    name,
                    is_cut,
                    at_least: entry.low,
                    at_most: entry.high,
                });
            }
            _ => others_at_most = others_at_most.max(entry.high),
        }
    }
    Table {
        total: summary.total(),
        others_at_most,
        top,
    }
}

fn routes(view: &View<'_>, sampled: &StatusBoard) -> Vec<Route> {
    let routes = view.routes.iter().map(|route| {
        let outcomes = by_outcome(&view.metrics.requests.totals_of(route.name));
        let series = sampled.routes.get(route.name);
        Route {
            name: route.name.to_string(),
            path: route.path.map(str::to_owned),
            total: outcomes.values().sum(),
            outcomes,
            second: series.map_or_else(Default::default, |it| lately(it, 1)),
            minute: series.map_or_else(Default::default, |it| lately(it, 60)),
        }
    });
    routes.collect()
}

fn upstreams(view: &View<'_>) -> Vec<Upstream> {
    let mut upstreams: Vec<_> = view.upstreams.iter().collect();
    upstreams.sort_by_key(|(name, _)| *name);
    let upstreams = upstreams.into_iter().map(|(name, upstream)| {
        let state = upstream.state();
        let servers = state.servers.into_iter().map(|server| Server {
            url: server.url,
            address: server.address.to_string(),
            state: server.state.to_owned(),
            in_flight: server.in_flight as u64,
            failures: u64::from(server.failures),
        });
        Upstream {
            name: name.to_string(),
            servers: servers.collect(),
            ejections: state.ejections,
            retries: state.retries,
        }
    });
    upstreams.collect()
}

fn redis(metrics: &GatewayMetrics, sampled: &StatusBoard) -> Option<Redis> {
    let is_up = metrics.redis().is_up()?;
    let nodes = metrics.redis().nodes().into_iter().map(|node| Node {
        address: node.node,
        memory_bytes: node.info.memory,
        memory_max_bytes: node.info.memory_max,
        operations_per_second: node.info.operations_per_second,
        script_calls: node.info.script_calls,
        script_seconds: node.info.script_time.map(|time| time.as_secs_f64()),
        evicted_keys: node.info.evicted_keys,
        uptime_seconds: node.info.uptime.map(|time| time.as_secs()),
        received_bytes: node.info.received,
        sent_bytes: node.info.sent,
    });
    let [calls, took, errors] = [0, 1, 2].map(|counter| sampled.store.lately(counter, 60));
    Some(Redis {
        is_up,
        calls,
        mean_ms: mean_ms(calls, took),
        errors,
        nodes: nodes.collect(),
    })
}
