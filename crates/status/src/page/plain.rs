//! What the page shows in browsers without script: the same tables, as text.

use std::fmt::{Display, Write as _};

use crate::document::{Near, Overrides, Status, Table, Upstream};
use crate::text::shown;

/// Rows of a table whose rows clients can add to.
const ROWS: usize = 20;

/// All tables. Those that would be empty are left out.
pub(super) fn tables(status: &Status) -> String {
    let mut html = summary(status);
    for proxy in &status.untrusted_proxies {
        let _ = write!(html, "<p>{}</p>", text(&proxy.text));
    }
    let limits = status.limits.iter().map(|it| {
        let (minute, observed) = (&it.minute, if it.observed { "yes" } else { "no" });
        let (over, near) = (minute.refused + minute.would_refuse, it.near_keys);
        [
            text(&it.name),
            text(minute.admitted),
            text(over),
            text(observed),
            text(near),
        ]
    });
    let heads = [
        "Limit",
        "Admitted",
        "Refused",
        "Only observed",
        "Keys near it",
    ];
    table(&mut html, "Limits, last minute", heads, limits);
    let (minute, near) = (&status.clients.minute, &status.clients.near);
    clients(&mut html, "Refused most, last minute", &minute.refused);
    clients(&mut html, "Admitted most, last minute", &minute.admitted);
    nearest(&mut html, near);
    let refusals = status.refusals.recent.iter().take(ROWS).map(|it| {
        [
            ago(status, it.at),
            text(&it.client),
            text(&it.limit),
            text(&it.route),
        ]
    });
    table(
        &mut html,
        "Latest refusals",
        ["Time", "Client", "Limit", "Route"],
        refusals,
    );
    overrides(&mut html, &status.overrides);
    let events = status.events.iter().take(ROWS);
    let events = events.map(|it| [ago(status, it.at), text(&it.text)]);
    table(&mut html, "Events", ["Time", "Event"], events);
    let routes = status
        .routes
        .iter()
        .filter(|it| it.path.is_some() || it.total > 0);
    let routes = routes.map(|it| {
        let minute = &it.minute;
        let mean = format!("{:.1} ms", minute.mean_ms);
        [
            text(&it.name),
            text(minute.all),
            text(minute.refused),
            text(minute.failed),
            mean,
        ]
    });
    let heads = ["Route", "Requests", "Refused", "Failed", "Mean time"];
    table(&mut html, "Routes, last minute", heads, routes);
    servers(&mut html, &status.upstreams);
    store(&mut html, status);
    html
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

fn clients(html: &mut String, title: &str, hits: &Table) {
    let rows = hits.top.iter().take(ROWS);
    let rows = rows.map(|it| [text(&it.name), text(it.at_least), text(it.at_most)]);
    table(html, title, ["Client", "At least", "At most"], rows);
}

fn nearest(html: &mut String, near: &[Near]) {
    let rows = near.iter().take(ROWS);
    let rows = rows.map(|it| [text(&it.name), text(&it.limit), text(it.left), text(it.of)]);
    table(
        html,
        "Near a limit",
        ["Client", "Limit", "Left", "Of"],
        rows,
    );
}

fn overrides(html: &mut String, overrides: &Overrides) {
    let rows = overrides.latest.iter().take(ROWS);
    let rows = rows.map(|it| [&it.name, &it.does, &it.until, &it.by, &it.reason].map(text));
    let title = format!("Overrides: {}", overrides.count);
    table(
        html,
        &title,
        ["Name", "Does", "Until", "By", "Reason"],
        rows,
    );
}

fn servers(html: &mut String, upstreams: &[Upstream]) {
    let rows = upstreams.iter().flat_map(|upstream| {
        upstream.servers.iter().map(|it| {
            let named = [&upstream.name, &it.url, &it.address, &it.state].map(text);
            let [name, url, address, state] = named;
            [
                name,
                url,
                address,
                state,
                text(it.in_flight),
                text(it.failures),
            ]
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
    table(html, "Servers", heads, rows);
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
        [
            text(address),
            it.memory_bytes.map_or_else(unknown, bytes),
            it.operations_per_second.map_or_else(unknown, text),
        ]
    });
    let heads = ["Server", "Memory", "Commands a second"];
    table(html, "Servers of Redis", heads, rows);
}

/// A table, if there are rows. Cells are HTML already.
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

/// How long before the document something was: the page of another zone says the same.
fn ago(status: &Status, at: u64) -> String {
    let seconds = status.at.saturating_sub(at) / 1_000;
    match seconds {
        0..120 => format!("{seconds}&nbsp;s&nbsp;ago"),
        120..7_200 => format!("{}&nbsp;min&nbsp;ago", seconds / 60),
        7_200..172_800 => format!("{}&nbsp;h&nbsp;ago", seconds / 3_600),
        _ => format!("{}&nbsp;days&nbsp;ago", seconds / 86_400),
    }
}

/// As text in HTML.
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
