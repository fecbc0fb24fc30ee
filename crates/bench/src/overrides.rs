//! The cost of overrides for a request, with few and with many overrides.

use std::net::Ipv4Addr;

use http::HeaderValue;
use tidegate_core::{FixedWindow, MAX_WINDOW};
use tidegate_identity::ListedClient;
use tidegate_store::{Limit, OnFailure};
use tidegate_tower::{OverrideAction, Overrides, Per, Rule};

use crate::request::{USER, send};
use crate::table::{Figure, Operation, Row, Table};

/// The number of overrides for other clients, for each column of the table.
const OTHERS: [u32; 3] = [0, 1_000, 100_000];

pub(crate) fn table() -> Table {
    let row = |name: &str, own: Option<(ListedClient, OverrideAction)>| Row {
        name: name.into(),
        figures: OTHERS
            .map(|others| {
                let own = own.clone();
                Figure::of(move || ask(others, own.clone()))
            })
            .into(),
    };
    let user = || ListedClient::UserId(USER.into());
    let network = || ListedClient::Network("203.0.113.0/24".parse().expect("a network"));
    Table {
        title: "a request that meets overrides",
        columns: vec![
            "no others".into(),
            "1,000 others".into(),
            "100,000 others".into(),
        ],
        rows: vec![
            row("none holds for the client", None),
            row("exempt by name", Some((user(), OverrideAction::Exempt))),
            row(
                "exempt by network",
                Some((network(), OverrideAction::Exempt)),
            ),
            row("blocked by name", Some((user(), OverrideAction::Block))),
        ],
        is_of_routes: false,
    }
}

/// Returns overrides for other clients: half of them for users, half for networks with the prefix lengths 24 and 32.
fn others(count: u32) -> impl Iterator<Item = (ListedClient, OverrideAction)> {
    (0..count).map(|at| {
        let address = Ipv4Addr::from(0x0a00_0000 + (at << 8));
        let client = match at % 4 {
            0 => ListedClient::Network(format!("{address}/24").parse().expect("a network")),
            1 => ListedClient::Network(format!("{address}/32").parse().expect("a network")),
            _ => ListedClient::UserId(format!("other-{at}").into()),
        };
        (client, OverrideAction::Exempt)
    })
}

/// Returns an operation that sends a request of [`USER`], with `count` overrides for other clients.
fn ask(count: u32, own: Option<(ListedClient, OverrideAction)>) -> Operation {
    let quota = FixedWindow::new(1_000_000, MAX_WINDOW).expect("these numbers fit");
    let limit = Limit::new("limit", quota, OnFailure::Local);
    let overrides = Overrides::default();
    overrides.table.replace(others(count).chain(own));
    let users = vec![HeaderValue::from_static(USER)];
    send(vec![Rule::new(limit, [Per::Client])], overrides, users)
}
