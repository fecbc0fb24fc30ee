//! The tables of `tidegate top`, one for each tab.

use tidegate_status::document::{Redis, Status};

use crate::hitters::clients;
use crate::table::{Note, Row, Table, count, plain};

/// A tab of the view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tab {
    #[default]
    Clients,
    Limits,
    Routes,
    Upstreams,
    Redis,
}

/// The time over which the requests of clients are counted: the last minute, or since the start of the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Window {
    #[default]
    Minute,
    Start,
}

impl Tab {
    /// All tabs, in the order of their numbers.
    pub(crate) const ALL: [Self; 5] = [
        Self::Clients,
        Self::Limits,
        Self::Routes,
        Self::Upstreams,
        Self::Redis,
    ];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Clients => "Clients",
            Self::Limits => "Limits",
            Self::Routes => "Routes",
            Self::Upstreams => "Upstreams",
            Self::Redis => "Redis",
        }
    }

    pub(crate) fn table(self, status: &Status, window: Window) -> Table {
        match self {
            Self::Clients => match window {
                Window::Minute => clients(&status.clients.minute, &status.clients.near),
                Window::Start => clients(&status.clients.start, &status.clients.near),
            },
            Self::Limits => limits(status),
            Self::Routes => routes(status),
            Self::Upstreams => upstreams(status),
            Self::Redis => redis(status),
        }
    }
}

fn limits(status: &Status) -> Table {
    let rows = status.limits.iter().map(|limit| {
        let over = limit.minute.refused + limit.minute.would_refuse;
        let used = limit
            .used
            .map_or_else(String::new, |used| format!("{:.0} %", used * 100.0));
        let name = match limit.observed {
            true => format!("{} (observed)", limit.name),
            false => limit.name.clone(),
        };
        let cells = [
            plain(over),
            plain(limit.minute.admitted),
            plain(limit.near_keys),
            (used, limit.used.map_or(0, |used| (used * 1_000.0) as u64)),
            plain(limit.total.refused + limit.total.would_refuse),
        ];
        Row::new(&name, cells, over > 0 && !limit.observed)
    });
    let heads = [
        "LIMIT",
        "REFUSED",
        "ADMITTED",
        "NEAR",
        "USED",
        "REFUSED EVER",
    ];
    Table::new(heads, rows)
}

fn routes(status: &Status) -> Table {
    let rows = status.routes.iter().map(|route| {
        let minute = &route.minute;
        let cells = [
            plain(minute.all),
            plain(minute.refused),
            plain(minute.failed),
            (
                format!("{:.1} ms", minute.mean_ms),
                (minute.mean_ms * 1_000.0) as u64,
            ),
            plain(route.total),
        ];
        Row::new(&route.name, cells, minute.failed > 0)
    });
    let heads = ["ROUTE", "REQUESTS", "REFUSED", "FAILED", "MEAN", "EVER"];
    Table::new(heads, rows)
}

fn upstreams(status: &Status) -> Table {
    let servers = status.upstreams.iter().flat_map(|upstream| {
        upstream.servers.iter().map(|server| {
            let name = match upstream.name == server.url {
                true => server.url.clone(),
                false => format!("{} {}", upstream.name, server.address),
            };
            let is_bad = server.state != "healthy";
            let cells = [
                (server.state.clone(), u64::from(is_bad)),
                plain(server.in_flight),
                plain(server.failures),
            ];
            Row::new(&name, cells, is_bad)
        })
    });
    Table::new(["SERVER", "STATE", "OPEN", "FAILURES"], servers)
}

fn redis(status: &Status) -> Table {
    let heads = ["SERVER", "MEMORY", "COMMANDS/S", "SCRIPTS", "EVICTED"];
    let store = &status.store;
    let Some(redis) = &store.redis else {
        let keys = count(store.memory_keys);
        return Table {
            note: Some(Note {
                text: format!("store: memory, {keys} keys"),
                is_bad: false,
            }),
            none: "",
            ..Table::new(heads, [])
        };
    };
    let nodes = redis.nodes.iter().enumerate().map(|(at, node)| {
        let number = |number: Option<u64>| number.map_or_else(|| ("-".to_owned(), 0), plain);
        let cells = [
            (
                node.memory_bytes.map_or_else(|| "-".to_owned(), bytes),
                node.memory_bytes.unwrap_or_default(),
            ),
            number(node.operations_per_second),
            number(node.script_calls),
            number(node.evicted_keys),
        ];
        let name = node.address.as_deref().unwrap_or("redis");
        let mut row = Row::new(name, cells, !redis.is_up);
        // Servers without an address have the same name, `redis`. `before` numbers their rows, so that each row has its own identity.
        let same = redis.nodes[..at].iter();
        row.identity.before = same.filter(|it| it.address == node.address).count();
        row
    });
    Table {
        note: Some(calls(redis)),
        none: "no server has answered INFO",
        ..Table::new(heads, nodes)
    }
}

/// Describes the calls by which Redis decides on requests: their number, mean duration and errors.
fn calls(redis: &Redis) -> Note {
    let state = match redis.is_up {
        true => "up",
        false => "DOWN",
    };
    let (calls, errors) = (count(redis.calls), count(redis.errors));
    Note {
        text: format!(
            "{state}   last minute: {calls} calls, mean {:.2} ms, {errors} errors",
            redis.mean_ms
        ),
        is_bad: !redis.is_up || redis.errors > 0,
    }
}

fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} KB", bytes / 1_000),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}
