//! The tables of the tabs, as rows of text.

use tidegate_status::{
    document::{Client, State, Status},
    shown,
};

/// A tab of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tab {
    Clients,
    Limits,
    Routes,
    Upstreams,
    Redis,
}

/// Over which span clients are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    Minute,
    Start,
}

/// Rows below heads; the first column is at the left, the others at the right.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) heads: Vec<&'static str>,
    pub(crate) rows: Vec<Row>,
}

/// A row, and its number for each column that is sorted by one.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) cells: Vec<String>,
    pub(crate) numbers: Vec<u64>,
    /// Whether something is wrong with it.
    pub(crate) is_bad: bool,
}

impl Row {
    /// A row of these cells, sorted by one number or by its texts.
    pub(crate) fn of<const N: usize>(cells: [String; N], number: u64) -> Self {
        Self {
            cells: cells.map(|cell| clean(&cell)).to_vec(),
            numbers: vec![number; N],
            is_bad: false,
        }
    }

    fn numbered<const N: usize>(name: &str, cells: [(String, u64); N], is_bad: bool) -> Self {
        let mut row = Self {
            cells: vec![clean(name)],
            numbers: vec![0],
            is_bad,
        };
        for (cell, number) in cells {
            row.cells.push(clean(&cell));
            row.numbers.push(number);
        }
        row
    }
}

impl Tab {
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
            Self::Clients => clients(status, window),
            Self::Limits => limits(status),
            Self::Routes => routes(status),
            Self::Upstreams => upstreams(status),
            Self::Redis => redis(status),
        }
    }
}

fn plain(number: u64) -> (String, u64) {
    (count(number), number)
}

/// A figure with its error.
fn ranged(client: Option<&Client>, others_at_most: u64) -> (String, u64) {
    match client {
        Some(it) if it.at_most > it.at_least => (
            format!("{}+{}", count(it.at_least), count(it.at_most - it.at_least)),
            it.at_least,
        ),
        Some(it) => plain(it.at_least),
        None if others_at_most > 0 => (format!("<={}", count(others_at_most)), 0),
        None => plain(0),
    }
}

fn clients(status: &Status, window: Window) -> Table {
    let hits = match window {
        Window::Minute => &status.clients.minute,
        Window::Start => &status.clients.start,
    };
    let (admitted, refused) = (&hits.admitted, &hits.refused);
    let mut names: Vec<&str> = refused
        .top
        .iter()
        .map(|client| client.name.as_str())
        .collect();
    let others = admitted.top.iter().map(|client| client.name.as_str());
    let others: Vec<_> = others.filter(|name| !names.contains(name)).collect();
    names.extend(others);
    let find =
        |clients: &[Client], name: &str| clients.iter().find(|client| client.name == name).cloned();
    let rows = names.into_iter().map(|name| {
        let over = ranged(find(&refused.top, name).as_ref(), refused.others_at_most);
        let used = ranged(find(&admitted.top, name).as_ref(), admitted.others_at_most);
        let near = status.clients.near.iter().find(|near| near.name == name);
        let near = near.map_or_else(String::new, |near| {
            format!("{} {}/{}", near.limit, count(near.left), count(near.of))
        });
        let is_bad = over.1 > 0;
        Row::numbered(name, [over, used, (near, 0)], is_bad)
    });
    Table {
        heads: vec!["CLIENT", "REFUSED", "ADMITTED", "NEAR"],
        rows: rows.collect(),
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
        Row::numbered(&name, cells, over > 0 && !limit.observed)
    });
    Table {
        heads: vec![
            "LIMIT",
            "REFUSED",
            "ADMITTED",
            "NEAR",
            "USED",
            "REFUSED EVER",
        ],
        rows: rows.collect(),
    }
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
        Row::numbered(&route.name, cells, minute.failed > 0)
    });
    Table {
        heads: vec!["ROUTE", "REQUESTS", "REFUSED", "FAILED", "MEAN", "EVER"],
        rows: rows.collect(),
    }
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
            Row::numbered(&name, cells, is_bad)
        })
    });
    Table {
        heads: vec!["SERVER", "STATE", "OPEN", "FAILURES"],
        rows: servers.collect(),
    }
}

fn redis(status: &Status) -> Table {
    let nodes = status.store.redis.iter().flat_map(|redis| {
        redis.nodes.iter().map(|node| {
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
            Row::numbered(
                node.address.as_deref().unwrap_or("redis"),
                cells,
                !redis.is_up,
            )
        })
    });
    Table {
        heads: vec!["SERVER", "MEMORY", "COMMANDS/S", "SCRIPTS", "EVICTED"],
        rows: nodes.collect(),
    }
}

/// What stands above all tabs.
pub(crate) fn headline(status: &Status, gateways: usize) -> String {
    let state = match status.health.state {
        State::Ok => "healthy",
        State::Warning => "WARNING",
        State::Failing => "FAILING",
    };
    let minute = &status.requests.minute;
    let share = 100.0 * minute.refused as f64 / minute.all.max(1) as f64;
    let many = match gateways {
        1 => String::new(),
        gateways => format!("{gateways} gateways  "),
    };
    format!(
        "{state}  {many}last minute: {} requests, {} refused ({share:.1} %), {} failed, mean {:.1} ms",
        count(minute.all),
        count(minute.refused),
        count(minute.failed),
        minute.mean_ms
    )
}

impl Table {
    /// As lines of text, with so many rows at most.
    pub(crate) fn text(&self, most: usize) -> String {
        if self.rows.is_empty() {
            return "  none\n".to_owned();
        }
        let heads: Vec<String> = self.heads.iter().map(|head| (*head).to_owned()).collect();
        let rows: Vec<&Vec<String>> = std::iter::once(&heads)
            .chain(self.rows.iter().take(most).map(|row| &row.cells))
            .collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let widths: Vec<usize> = (0..heads.len())
            .map(|column| width(column).unwrap_or_default())
            .collect();
        let mut text = String::new();
        for row in rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                match column {
                    0 => line.push_str(&format!("  {cell:<width$}")),
                    _ => line.push_str(&format!("  {cell:>width$}")),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// A number with a mark between thousands.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} KB", bytes / 1_000),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// A client's name, in a form that is safe for a terminal.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_status::document::Table as Clients;

    #[test]
    fn a_clients_name_does_not_reach_the_terminal_as_it_is() {
        let mut status = Status::default();
        status.clients.minute.refused = Clients {
            total: 7,
            others_at_most: 0,
            top: vec![Client {
                name: "user_id:\u{1b}[2J\u{7}\u{202e}evil\r\n".to_owned(),
                is_cut: false,
                at_least: 5,
                at_most: 7,
            }],
        };
        let text = Tab::Clients.table(&status, Window::Minute).text(9);
        assert!(
            text.chars().all(|char| char == '\n' || !char.is_control()),
            "{text:?}"
        );
        assert!(text.contains("5+2"), "{text}");
    }

    #[test]
    fn numbers_are_easy_to_read() {
        let texts = [0, 999, 1_000, 12_345_678].map(count);
        assert_eq!(texts, ["0", "999", "1,000", "12,345,678"]);
    }
}
