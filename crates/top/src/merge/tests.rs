//! Tests the sums of documents, and the bounds of clients' figures in them.

use proptest::prelude::*;
use tidegate_status::document::{Client, Columns, Near, Node, Redis, State, Table};

use super::*;

fn of(top: &[(&str, u64, u64)], others_at_most: u64, total: u64) -> Status {
    let mut status = Status::default();
    let clients = top.iter().map(|(name, at_least, at_most)| Client {
        name: (*name).to_owned(),
        is_cut: name.ends_with('…'),
        at_least: *at_least,
        at_most: *at_most,
    });
    status.clients.minute.refused = Table {
        total,
        others_at_most,
        top: clients.collect(),
    };
    status
}

/// Returns the figures of the clients that were refused in the last minute.
fn figures(status: &Status) -> Vec<(&str, u64, u64)> {
    let top = status.clients.minute.refused.top.iter();
    top.map(|it| (it.name.as_str(), it.at_least, it.at_most))
        .collect()
}

#[test]
fn figures_and_errors_of_clients_are_summed() {
    let one = of(&[("a", 10, 12), ("b", 5, 6)], 2, 30);
    let other = of(&[("c", 9, 9), ("a", 1, 1)], 1, 20);
    let merged = merged([one, other]).unwrap();
    assert_eq!(figures(&merged), [("a", 11, 13), ("c", 9, 11), ("b", 5, 7)]);
    let table = &merged.clients.minute.refused;
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

#[test]
fn names_that_are_cut_stay_apart() {
    let one = of(&[("x…", 10, 10), ("x…", 4, 5)], 1, 15);
    let other = of(&[("x…", 7, 8)], 0, 8);
    let merged = merged([one, other]).unwrap();
    // A row of one document may belong to at most one row of the other document.
    assert_eq!(
        figures(&merged),
        [("x…", 10, 18), ("x…", 7, 18), ("x…", 4, 13)]
    );
    assert_eq!(merged.clients.minute.refused.total, 23);
}

fn with_redis(calls: u64, mean_ms: f64, nodes: Vec<Node>) -> Status {
    let mut status = Status::default();
    status.store.kind = "redis".to_owned();
    status.store.redis = Some(Redis {
        is_up: true,
        calls,
        mean_ms,
        errors: 1,
        nodes,
    });
    status
}

#[test]
fn redis_is_known_from_whichever_gateway_has_it() {
    let node = |address: &str, memory_bytes| Node {
        address: Some(address.to_owned()),
        memory_bytes,
        ..Node::default()
    };
    let mut memory = Status::default();
    memory.store.kind = "memory".to_owned();
    let merged = merged([
        memory,
        with_redis(30, 1.0, vec![node("a", None)]),
        with_redis(10, 5.0, vec![node("b", Some(2)), node("a", Some(1))]),
    ])
    .unwrap();
    let redis = merged.store.redis.unwrap();
    assert_eq!((redis.calls, redis.mean_ms, redis.errors), (40, 2.0, 2));
    assert_eq!(redis.nodes, [node("a", Some(1)), node("b", Some(2))]);
    assert_eq!(merged.store.kind, "redis");
    assert_eq!(
        merged.health.reasons,
        ["The gateways have different stores: memory, redis."]
    );
}

#[test]
fn a_redis_without_an_address_has_a_row_of_each_gateway() {
    let node = |memory_bytes| Node {
        memory_bytes,
        ..Node::default()
    };
    let with = |memory_bytes| with_redis(1, 1.0, vec![node(memory_bytes)]);
    let merged = merged([with(None), with(Some(1)), with(Some(2))]).unwrap();
    let nodes = merged.store.redis.unwrap().nodes;
    assert_eq!(nodes, [node(None), node(Some(1)), node(Some(2))]);
}

#[test]
fn reasons_stand_once_and_differences_are_said() {
    let with = |version: &str, reasons: &[&str]| {
        let mut status = Status::default();
        status.gateway.version = version.to_owned();
        status.gateway.configuration = "abc".to_owned();
        status.health.reasons = reasons.iter().map(|it| (*it).to_owned()).collect();
        status
    };
    let merged = merged([
        with("0.1.0", &["One.", "Two."]),
        with("0.2.0", &["Three.", "One."]),
        with("0.1.0", &["Two."]),
    ])
    .unwrap();
    assert_eq!(
        merged.health.reasons,
        [
            "One.",
            "Two.",
            "Three.",
            "The gateways have different versions of tidegate: 0.1.0, 0.2.0."
        ]
    );
    assert_eq!(merged.health.state, State::Warning);
}

#[test]
fn memory_has_a_bound_if_each_gateway_has_one() {
    let with = |memory_bytes, memory_max_bytes| {
        let mut status = Status::default();
        status.gateway.memory_bytes = memory_bytes;
        status.gateway.memory_max_bytes = memory_max_bytes;
        status
    };
    let of = |statuses: [Status; 2]| {
        let gateway = merged(statuses).unwrap().gateway;
        (gateway.memory_bytes, gateway.memory_max_bytes)
    };
    assert_eq!(of([with(1, Some(5)), with(2, Some(7))]), (3, Some(12)));
    assert_eq!(of([with(1, Some(5)), with(2, None)]), (3, None));
    assert_eq!(of([with(0, None), with(2, Some(7))]), (0, None));
}

#[test]
fn a_sum_has_no_series() {
    let with = |name: &str| {
        let mut status = Status::default();
        status.requests.series = Some(Columns::default());
        status.limits = vec![Limit {
            name: name.to_owned(),
            series: Some(Columns::default()),
            ..Limit::default()
        }];
        status
    };
    let sum = merged([with("a"), with("b")]).unwrap();
    assert_eq!(sum.limits.len(), 2);
    assert!(sum.requests.series.is_none());
    assert!(sum.limits.iter().all(|limit| limit.series.is_none()));
    let single = merged([with("a")]).unwrap();
    assert!(single.requests.series.is_some() && single.limits[0].series.is_some());
}

#[test]
fn who_is_near_is_as_near_as_any_gateway_saw() {
    let with = |left, is_cut| {
        let mut status = Status::default();
        status.clients.near = vec![Near {
            name: "a".to_owned(),
            limit: "few".to_owned(),
            left,
            of: 10,
            is_cut,
        }];
        status
    };
    let left = |statuses: [Status; 2]| {
        let near = merged(statuses).unwrap().clients.near;
        near.iter().map(|it| it.left).collect::<Vec<_>>()
    };
    assert_eq!(left([with(2, false), with(1, false)]), [1]);
    assert_eq!(left([with(2, true), with(1, true)]), [1, 2]);
}

#[test]
fn clients_near_one_limit_do_not_hide_those_near_another() {
    let with = |limit: &str, left, count: u32| {
        let near = (0..count).map(|n| Near {
            name: format!("client-{n}"),
            limit: limit.to_owned(),
            left,
            of: 10,
            is_cut: false,
        });
        let mut status = Status::default();
        status.clients.near = near.collect();
        status
    };
    // The nearest clients of all gateways come first.
    let all = merged([with("many", 1, 3), with("few", 0, 100)]).unwrap();
    let limits = all.clients.near.iter().map(|it| it.limit.as_str());
    let limits: Vec<_> = limits.collect();
    assert_eq!(limits, [vec!["few"; 97], vec!["many"; 3]].concat());
}

/// The count of one client on one gateway. If the client is listed, also the distances of its lower and upper bound.
type Counted = (u64, Option<(u64, u64)>);

/// Returns a gateway's document. Three successive clients have the same name if their names are cut.
fn document(counted: &[Counted], cut: &[bool]) -> Status {
    let mut unlisted = 0;
    let mut top = Vec::new();
    for (at, (count, listed)) in counted.iter().enumerate() {
        match listed {
            Some((less, more)) => top.push(Client {
                name: name(at, cut),
                is_cut: cut[at],
                at_least: count.saturating_sub(*less),
                at_most: count + more,
            }),
            None => unlisted = unlisted.max(*count),
        }
    }
    let mut status = Status::default();
    status.clients.minute.refused = Table {
        total: counted.iter().map(|(count, _)| count).sum(),
        others_at_most: unlisted,
        top,
    };
    status
}

fn name(client: usize, cut: &[bool]) -> String {
    match cut[client] {
        true => format!("long-{}…", client / 3),
        false => format!("client-{client}"),
    }
}

fn gateways() -> impl Strategy<Value = (Vec<bool>, Vec<Vec<Counted>>)> {
    // Unlisted clients have low counts. Otherwise all counts would be below `others_at_most`.
    let counted = prop_oneof![
        (0_u64..8).prop_map(|count| (count, None)),
        (0_u64..100, (0_u64..5, 0_u64..5)).prop_map(|(count, error)| (count, Some(error))),
    ];
    (1_usize..160, 1_usize..5).prop_flat_map(move |(clients, gateways)| {
        let all = proptest::collection::vec(counted.clone(), clients);
        (
            proptest::collection::vec(proptest::bool::weighted(0.4), clients),
            proptest::collection::vec(all, gateways),
        )
    })
}

proptest! {
    #[test]
    fn a_sum_holds_for_every_client((cut, gateways) in gateways()) {
        let documents = gateways.iter().map(|counted| document(counted, &cut));
        let documents: Vec<_> = documents.collect();
        let others: Vec<u64> = documents
            .iter()
            .map(|it| it.clients.minute.refused.others_at_most)
            .collect();
        let sum = merged(documents).unwrap().clients.minute.refused;
        prop_assert_eq!(sum.total, gateways.iter().flatten().map(|(count, _)| count).sum::<u64>());
        for (client, is_cut) in cut.iter().enumerate() {
            let of_client = gateways.iter().map(|counted| counted[client]);
            let truth: u64 = of_client.clone().map(|(count, _)| count).sum();
            let name = name(client, &cut);
            let rows: Vec<_> = sum.top.iter().filter(|it| it.name == name && it.is_cut == *is_cut).collect();
            let holds = |row: &&Client| row.at_least <= truth && truth <= row.at_most;
            if *is_cut {
                // One of the rows with this name belongs to the client.
                prop_assert!(truth <= sum.others_at_most || rows.iter().any(holds), "{} {:?}", truth, rows);
                continue;
            }
            prop_assert!(rows.len() <= 1);
            let Some(row) = rows.first() else {
                prop_assert!(truth <= sum.others_at_most);
                continue;
            };
            prop_assert!(holds(row), "{} {:?}", truth, row);
            let errors: u64 = of_client
                .zip(&others)
                .map(|((count, listed), others)| match listed {
                    Some((less, more)) => more + less.min(count),
                    None => *others,
                })
                .sum();
            prop_assert!(row.at_most - row.at_least <= errors, "{} {:?}", errors, row);
        }
    }
}

#[test]
fn clients_of_a_limit_are_not_counted_twice_but_its_verdicts_are_summed() {
    let of = |clients, used_shares: &[u64]| Status {
        limits: vec![Limit {
            name: "one".into(),
            clients,
            used_shares: used_shares.into(),
            ..Limit::default()
        }],
        ..Status::default()
    };
    // A gateway of an earlier release has no used shares.
    let merged = merged([of(3, &[]), of(7, &[1, 2]), of(5, &[10, 20])]).unwrap();
    let limit = &merged.limits[0];
    assert_eq!((limit.clients, &limit.used_shares[..]), (7, &[11, 22][..]));
}
