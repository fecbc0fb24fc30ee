use std::sync::atomic::AtomicUsize;

use tidegate_core::{FixedWindow, MAX_WINDOW};
use tidegate_store::{Limit, OnFailure};

use super::*;
use crate::{Peer, Per, Rule};
use tidegate_identity::{ClientSource, Clients as Sources, TrustedProxies};

fn listed(name: &str) -> ListedClient {
    match name.split_once(':') {
        Some(("api_key", name)) => ListedClient::ApiKey(name.into()),
        Some(("user_id", id)) => ListedClient::UserId(id.into()),
        _ => {
            // An address counts as a network of one address.
            let network = name.parse::<ipnet::IpNet>();
            let address = || name.parse::<std::net::IpAddr>().unwrap().into();
            ListedClient::Network(network.unwrap_or_else(|_| address()))
        }
    }
}

fn table(overrides: &[(&str, OverrideAction)]) -> OverrideTable {
    let table = OverrideTable::default();
    let overrides = overrides.iter();
    table.replace(overrides.map(|(name, action)| (listed(name), action.clone())));
    table
}

/// Makes the caller of a user that a trusted proxy names, at this address.
fn caller(address: &str, user: &str) -> Caller {
    let clients = Sources {
        sources: vec![ClientSource::UserId {
            header: http::HeaderName::from_static("x-user-id"),
        }],
        trusted: TrustedProxies::new(vec!["127.0.0.1/32".parse().unwrap()]),
        ..Sources::default()
    };
    let mut headers = http::HeaderMap::new();
    headers.insert("x-forwarded-for", address.parse().unwrap());
    headers.insert("x-user-id", user.parse().unwrap());
    clients.identify(Peer::connected(([127, 0, 0, 1], 1).into()), &headers)
}

fn plan(name: &str) -> OverrideAction {
    OverrideAction::Plan(name.into())
}

#[test]
fn nothing_is_found_where_there_is_nothing() {
    let overrides = table(&[]);
    assert!(overrides.load().is_none());
    overrides.replace([(listed("10.0.0.0/8"), OverrideAction::Block)].into_iter());
    assert!(overrides.load().is_some());
    let same = overrides.clone();
    same.replace(std::iter::empty());
    assert!(overrides.load().is_none());
}

#[test]
fn a_name_comes_before_a_network_and_a_long_network_before_a_short_one() {
    let overrides = table(&[
        ("user_id:42", plan("name")),
        ("10.0.0.0/8", plan("short")),
        ("10.1.0.0/16", OverrideAction::Exempt),
        ("2001:db8::7", plan("one")),
    ]);
    let table = overrides.load().unwrap();
    for (address, user, granted) in [
        ("10.1.2.3", "42", Some((plan("name"), "user_id:42"))),
        (
            "10.1.2.3",
            "43",
            Some((OverrideAction::Exempt, "10.1.0.0/16")),
        ),
        ("10.2.2.3", "43", Some((plan("short"), "10.0.0.0/8"))),
        ("2001:db8::7", "43", Some((plan("one"), "2001:db8::7"))),
        ("2001:db8::8", "43", None),
        ("192.0.2.1", "4", None),
    ] {
        let grant = table.grant(&caller(address, user));
        let grant = grant.map(|(action, entry)| (action.clone(), entry.text.to_string()));
        let granted = granted.map(|(action, text)| (action, text.to_owned()));
        assert_eq!(grant, granted, "{address} {user}");
    }
    assert!(table.exempts_address("10.1.2.3".parse().unwrap()));
    assert!(!table.exempts_address("10.2.2.3".parse().unwrap()));
    assert!(!table.exempts_names());
}

#[test]
fn a_block_holds_whatever_else_is_granted() {
    let overrides = table(&[
        ("user_id:42", OverrideAction::Block),
        ("api_key:acme", OverrideAction::Exempt),
        ("10.0.0.0/8", OverrideAction::Block),
        ("10.1.0.0/16", OverrideAction::Exempt),
    ]);
    let table = overrides.load().unwrap();
    let blocked = |address: &str| table.blocks_address(address.parse().unwrap());
    assert_eq!(&*blocked("10.1.2.3").unwrap().text, "10.0.0.0/8");
    assert_eq!(blocked("192.0.2.1"), None);
    let mut both = caller("192.0.2.1", "42");
    assert!(table.blocks_name(&both).is_some());
    // The caller is named by its key, and its other name is blocked.
    let key = Client::ApiKey("acme".into());
    (both.client, both.api_key) = (key.clone(), Some(key));
    assert_eq!(&*table.blocks_name(&both).unwrap().text, "user_id:42");
    assert!(table.blocks_name(&caller("192.0.2.1", "43")).is_none());
    assert!(table.exempts_names());
}

#[test]
fn a_key_that_is_not_listed_is_known_by_the_name_in_the_log() {
    let mut unlisted = caller("192.0.2.1", "43");
    unlisted.client = Client::UnlistedKey([7; 16]);
    let name = unlisted.client.to_string();
    let overrides = table(&[(&name, OverrideAction::Block)]);
    let entry = overrides.load().unwrap().blocks_name(&unlisted);
    assert_eq!(&*entry.unwrap().text, name);
}

/// Each configuration reads the numbers once. Later requests and changes of other overrides do not read them again.
#[test]
fn numbers_are_read_once_by_each_configuration() {
    let reads = Arc::new(AtomicUsize::new(0));
    let limit = |capacity| {
        let quota = FixedWindow::new(capacity, MAX_WINDOW).unwrap();
        Arc::new(Limit::new("it", quota, OnFailure::Local))
    };
    let configuration = || {
        let reads = reads.clone();
        NumberReader::new(move |name, text| {
            reads.fetch_add(1, Ordering::Relaxed);
            match (name, text) {
                ("it", "unlimited") => Ok(None),
                ("it", text) => Ok(Some(limit(text.parse().unwrap()))),
                _ => Err("there is no such limit".to_owned()),
            }
        })
    };
    let numbers = |texts: &[(&str, &str)]| {
        let texts = texts
            .iter()
            .map(|(name, text)| (name.to_string(), text.to_string()));
        OverrideAction::Set(Arc::new(SetNumbers::new(texts.collect())))
    };
    let set = [
        ("user_id:42", numbers(&[("it", "9"), ("gone", "9")])),
        ("user_id:43", numbers(&[("it", "unlimited")])),
        ("user_id:44", numbers(&[("gone", "9")])),
    ];
    let plans = ClientPlans::new(["gold"]);
    let mut rule = Rule::new(limit(3), [Per::Client]);
    rule.plans = [Some(limit(5))].into();
    let other = Limit::new("other", *rule.limit.quota(), OnFailure::Local);
    let mut other = Rule::new(other, [Per::Client]);
    other.plans = rule.plans.clone();
    let capacity = |rule: &Rule, plan: Option<&ClientPlan>| {
        rule.limit_for(plan).map(|limit| limit.quota().capacity())
    };
    for round in 1..=2 {
        let overrides = Overrides {
            table: table(&set),
            plans: plans.clone(),
            numbers: configuration(),
        };
        for _ in 0..3 {
            for (user, name, expected) in [
                ("42", "", (Some(9), Some(3))),
                ("42", "gold", (Some(9), Some(5))),
                ("43", "gold", (None, Some(5))),
                ("44", "", (Some(3), Some(3))),
                ("45", "gold", (Some(5), Some(5))),
            ] {
                let mut caller = caller("192.0.2.1", user);
                caller.plan = plans.called(name);
                let entry = overrides.apply(&mut caller);
                // An override does not apply if the configuration lacks all of its limits.
                assert_eq!(entry.is_some(), ["42", "43"].contains(&user), "{user}");
                let plan = caller.plan.as_ref();
                let capacities = (capacity(&rule, plan), capacity(&other, plan));
                assert_eq!(capacities, expected, "{user}");
                assert_eq!(plan.map_or("", ClientPlan::name), name, "{user}");
            }
            overrides.table.replace(
                set.iter()
                    .map(|(name, action)| (listed(name), action.clone())),
            );
        }
        assert_eq!(reads.load(Ordering::Relaxed), 4 * round);
    }
}
