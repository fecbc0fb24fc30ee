//! The tables of the status page as HTML text, for browsers without script.

use std::fmt::{Display, Write as _};

use crate::document::Status;
use crate::text::shown;

/// The most rows in each table of clients, refusals, overrides or events. The other tables show all rows.
const ROWS: usize = 20;

/// Formats all tables that have rows.
pub(super) fn tables(status: &Status) -> String {
    let mut html = summary(status);
    for proxy in &status.untrusted_proxies {
        let _ = write!(html, "<p>{}</p>", text(&proxy.text));
    }
    let limits = status.limits.iter().map(|it| {
        let (minute, observed) = (&it.minute, if it.observed { "yes" } else { "no" });
        let over = minute.refused + minute.would_refuse;
        cells([
            &it.name,
            &minute.admitted,
            &over,
            &observed,
            &it.clients,
            &it.near_keys,
        ])
    });
    let heads = [
        "Limit",
        "Admitted",
        "Refused",
        "Only observed",
        "Clients",
        "Keys near it",
    ];
    table(&mut html, "Limits, last minute", heads, limits);
    let minute = &status.clients.minute;
    for (title, hits) in [
        ("Refused most, last minute", &minute.refused),
        ("Admitted most, last minute", &minute.admitted),
    ] {
        let rows = first_rows(&hits.top).map(|it| cells([&it.name, &it.at_least, &it.at_most]));
        table(&mut html, title, ["Client", "At least", "At most"], rows);
    }
    let near =
        first_rows(&status.clients.near).map(|it| cells([&it.name, &it.limit, &it.left, &it.of]));
    let heads = ["Client", "Limit", "Left", "Of"];
    table(&mut html, "Near a limit", heads, near);
    let refusals = first_rows(&status.refusals.recent).map(|it| {
        let [client, limit, route] = cells([&it.client, &it.limit, &it.route]);
        [ago(status, it.at), client, limit, route]
    });
    let heads = ["Time", "Client", "Limit", "Route"];
    table(&mut html, "Latest refusals", heads, refusals);
    let overrides = first_rows(&status.overrides.latest)
        .map(|it| cells([&it.name, &it.does, &it.until, &it.by, &it.reason]));
    let title = format!("Overrides: {}", status.overrides.count);
    let heads = ["Name", "Does", "Until", "By", "Reason"];
    table(&mut html, &title, heads, overrides);
    let events = first_rows(&status.events).map(|it| [ago(status, it.at), text(&it.text)]);
    table(&mut html, "Events", ["Time", "Event"], events);
    let routes = status
        .routes
        .iter()
        .filter(|it| it.path.is_some() || it.total > 0)
        .map(|it| {
            let mean = format!("{:.1} ms", it.minute.mean_ms);
            cells([
                &it.name,
                &it.minute.all,
                &it.minute.refused,
                &it.minute.failed,
                &mean,
            ])
        });
    let heads = ["Route", "Requests", "Refused", "Failed", "Mean time"];
    table(&mut html, "Routes, last minute", heads, routes);
    let servers = status.upstreams.iter().flat_map(|upstream| {
        let name = &upstream.name;
        upstream.servers.iter().map(move |it| {
            cells([
                name,
                &it.url,
                &it.address,
                &it.state,
                &it.in_flight,
                &it.failures,
            ])
        })
    });
    let heads = [
        "Upstream",
        "Server",
        "Address",
        "State",
        "Open requests",
        "Failures in a row",
    ];
    table(&mut html, "Servers", heads, servers);
    store(&mut html, status);
    html
}

fn first_rows<T>(list: &[T]) -> impl Iterator<Item = &T> {
    list.iter().take(ROWS)
}

fn summary(status: &Status) -> String {
    let reasons = &status.health.reasons;
    let health = match reasons.is_empty() {
        true => "Healthy.".to_owned(),
        false => reasons.iter().map(text).collect::<Vec<_>>().join(" "),
    };
    let minute = &status.requests.minute;
    format!(
        "<p>{health} Last minute: {} requests, {} refused, {} failed.</p>",
        minute.all, minute.refused, minute.failed
    )
}

fn store(html: &mut String, status: &Status) {
    let keys = status.store.memory_keys;
    let Some(redis) = &status.store.redis else {
        let _ = write!(
            html,
            "<h2>Store</h2><p>Memory of this process, {keys} keys.</p>"
        );
        return;
    };
    let state = if redis.is_up {
        "connected"
    } else {
        "cannot be reached"
    };
    let _ = write!(
        html,
        "<h2>Redis</h2><p>Redis: {state}. Last minute: {} decisions, {:.2} ms on average, {} failed.</p>",
        redis.calls, redis.mean_ms, redis.errors
    );
    let unknown = || "–".to_owned();
    let rows = redis.nodes.iter().map(|it| {
        let address = it.address.as_deref().unwrap_or("Redis");
        let memory = it.memory_bytes.map_or_else(unknown, bytes);
        let commands = it.operations_per_second.map_or_else(unknown, text);
        cells([&address, &memory, &commands])
    });
    let heads = ["Server", "Memory", "Commands a second"];
    table(html, "Servers of Redis", heads, rows);
}

/// Adds a table, if it has rows. The cells must already be HTML.
fn table<const N: usize>(
    html: &mut String,
    title: &str,
    heads: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    let _ = write!(html, "<h2>{title}</h2><div class=\"plain\"><table><tr>");
    for head in heads {
        let _ = write!(html, "<th>{head}");
    }
    html.push_str("</tr>");
    for row in rows {
        let _ = write!(html, "<tr><td>{}</tr>", row.join("<td>"));
    }
    html.push_str("</table></div>");
}

fn bytes(number: u64) -> String {
    match number {
        0..1_000 => format!("{number} B"),
        1_000..1_000_000 => format!("{} KB", number / 1_000),
        _ => format!("{:.1} MB", number as f64 / 1e6),
    }
}

/// Returns the cells of a row as HTML.
fn cells<const N: usize>(cells: [&dyn Display; N]) -> [String; N] {
    cells.map(text)
}

/// Formats a time as an age, because the time zone of the user is unknown.
fn ago(status: &Status, at: u64) -> String {
    let seconds = status.at.saturating_sub(at) / 1_000;
    match seconds {
        0..120 => format!("{seconds}&nbsp;s&nbsp;ago"),
        120..7_200 => format!("{}&nbsp;min&nbsp;ago", seconds / 60),
        7_200..172_800 => format!("{}&nbsp;h&nbsp;ago", seconds / 3_600),
        _ => format!("{}&nbsp;days&nbsp;ago", seconds / 86_400),
    }
}

/// Escapes a text for HTML.
fn text(it: impl Display) -> String {
    let text = it.to_string();
    text.chars().fold(String::new(), |mut html, char| {
        match char {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            char => html.push(shown(char)),
        }
        html
    })
}
