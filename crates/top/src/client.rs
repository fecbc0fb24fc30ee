//! One client's budgets in a table.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_status::client::{Decides, KeyUse, Report, Standing};

use crate::text::{clean, left, width};

/// Formats a report as `tidegate client` prints it: a row for each budget, followed by notes. `is_reset` is true if the budgets were just
/// reset.
pub fn client_table(report: &Report, is_reset: bool) -> String {
    let head = [
        "limit",
        "algorithm",
        "per",
        "left",
        "of",
        "all back",
        "next",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(report.limits.iter().map(|it| row(it).map(|it| clean(&it))));
    let widths: [usize; 7] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| width(&row[column]));
        cells.max().unwrap_or_default()
    });
    let mut lines = vec![title(report)];
    lines.extend(before(report));
    if report.limits.is_empty() {
        rows.clear();
    }
    for row in &rows {
        let cells: [String; 7] = std::array::from_fn(|at| left(&row[at], widths[at]));
        lines.push(format!("  {}", cells.join("  ").trim_end()));
    }
    lines.extend(after(report, is_reset));
    // Replaces line breaks, so that a name cannot begin a new line.
    lines.iter().map(|line| clean(line) + "\n").collect()
}

/// Returns the client's name and plan.
pub(crate) fn title(report: &Report) -> String {
    match &report.plan {
        Some(plan) => format!("{}, of the plan {plan}", report.client),
        None => report.client.clone(),
    }
}

/// Returns the notes above the budgets.
pub(crate) fn before(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(it) = &report.overridden {
        lines.push(format!("override for {}: {}", it.by, it.does));
    }
    if let Some(reason) = &report.without_store {
        lines.push(format!(
            "{reason}: this is what this gateway knows by itself"
        ));
    }
    if report.plan_by_token {
        let text =
            "the token of a user names the plan; these are the numbers of users without a plan";
        lines.push(text.to_owned());
    }
    if report.limits.is_empty() {
        lines.push("no limit counts this client".to_owned());
    }
    lines
}

/// Returns the notes below the budgets.
pub(crate) fn after(report: &Report, is_reset: bool) -> Vec<String> {
    let mut lines = without_store(report);
    let here = report.limits.iter().filter(|it| it.this_gateway_only);
    let mut here: Vec<String> = here.map(|it| it.name.clone()).collect();
    here.dedup();
    let counted_here = match is_reset {
        false => "counted by this gateway alone",
        true => "reset on this gateway alone, since each gateway counts by itself",
    };
    let unlisted = report.unlisted.iter();
    let unlisted = unlisted.map(|it| format!("{} (per {})", it.name, it.per.join(", ")));
    let unlisted: Vec<String> = unlisted.collect();
    for (what, names, between) in [
        (counted_here, &here, ", "),
        ("unlimited under this plan", &report.unlimited, ", "),
        (
            "not listed, because they count per something that only a request has",
            &unlisted,
            "; ",
        ),
        ("shared with others", &report.shared, ", "),
        (
            "one budget for each plan of the clients that they count together",
            &report.per_plan,
            ", ",
        ),
    ] {
        if !names.is_empty() {
            lines.push(format!("{what}: {}", names.join(between)));
        }
    }
    lines.extend(report.keys.iter().map(key_use));
    lines
}

/// Describes an API key: its last use and its expiry.
fn key_use(key: &KeyUse) -> String {
    let now = now();
    let used = match key.last_used {
        Some(last) => format!("used {} ago", lasting(now.saturating_sub(last))),
        None => "not used since this gateway started".to_owned(),
    };
    let expires = match key.expires {
        Some(end) if end <= now => ", expired".to_owned(),
        Some(end) => format!(", expires in {}", lasting(end - now)),
        None => String::new(),
    };
    format!("API key {}: {used}{expires}", key.hash)
}

/// Returns the time until `end`, an epoch second, such as `in 5 min`; `now` if it has passed.
pub(crate) fn lasting_until(end: u64) -> String {
    match end.saturating_sub(now()) {
        0 => "now".to_owned(),
        seconds => format!("in {}", lasting(seconds)),
    }
}

/// Returns the current time in epoch seconds.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

/// Describes how each limit decides without Redis. Returns no lines while Redis answers.
fn without_store(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for (decides, what) in [
        (Decides::Share, "decided here, by this gateway's share"),
        (Decides::Open, "not limited without Redis"),
        (Decides::Closed, "answered 503 without Redis"),
    ] {
        let mut names = Vec::new();
        for limit in &report.limits {
            if limit.known_here.as_ref().map(|it| it.decides) == Some(decides) {
                names.push(name(limit));
            }
        }
        if !names.is_empty() {
            lines.push(format!("{what}: {}", names.join(", ")));
        }
    }
    for limit in &report.limits {
        let Some(state) = &limit.known_here else {
            continue;
        };
        let name = name(limit);
        if let Some(left) = state.leased {
            lines.push(format!(
                "borrowed from Redis, and spent first: {name}, {left} left"
            ));
        }
        if let Some(last) = &state.last {
            let ago = lasting(last.seconds_ago);
            let answer = match last.refused_for {
                0 => format!("{} left", last.remaining),
                more => format!("refused for {} more", lasting(more)),
            };
            lines.push(format!("Redis said last: {name}, {answer}, {ago} ago"));
        }
    }
    lines
}

fn lasting(seconds: u64) -> String {
    humantime::format_duration(Duration::from_secs(seconds)).to_string()
}

/// Returns a limit's name. Adds the route if the client has a budget for each route.
fn name(standing: &Standing) -> String {
    match &standing.route {
        Some(route) => format!("{} on {route}", standing.name),
        None => standing.name.clone(),
    }
}

fn row(standing: &Standing) -> [String; 7] {
    let [name, left, of, back, next] = budget(standing);
    let (algorithm, per) = (standing.algorithm.clone(), standing.per.join(", "));
    [name, algorithm, per, left, of, back, next]
}

/// Returns a limit's name, the units left, the quota, the time until all units are back, and the time until the next request is allowed.
pub(crate) fn budget(standing: &Standing) -> [String; 5] {
    let now = now();
    let mut name = name(standing);
    if standing.observed {
        name.push_str(" (only observed)");
    }
    // If no units of a window are used, `reset` is still the end of the window, but all units are available now.
    let reset = match standing.remaining < standing.limit {
        true => standing.reset.saturating_sub(now),
        false => 0,
    };
    let is_held = standing.algorithm == "concurrency" && reset > 0;
    let until = |seconds: u64| match seconds {
        0 => "now".to_owned(),
        seconds => format!("in {}", lasting(seconds)),
    };
    let decides = standing.known_here.as_ref().map(|state| state.decides);
    // Without Redis, limits with `on_failure: open` or `closed` count no requests, so there are no figures.
    if matches!(decides, Some(Decides::Open | Decides::Closed)) {
        let next = match standing.allowed {
            true => "now",
            false => "with Redis",
        };
        let [left, of, back] = ["-"; 3].map(str::to_owned);
        return [name, left, of, back, next.to_owned()];
    }
    [
        name,
        standing.remaining.to_string(),
        standing.limit.to_string(),
        match is_held {
            true => "as requests end".to_owned(),
            false => until(reset),
        },
        until(standing.retry_after),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_makes_no_line_and_keeps_its_columns() {
        let limit = |name: &str| Standing {
            name: name.to_owned(),
            route: None,
            algorithm: "fixed_window".to_owned(),
            per: vec!["client".to_owned()],
            limit: 5,
            remaining: 5,
            reset: 0,
            allowed: true,
            observed: false,
            this_gateway_only: false,
            retry_after: 0,
            known_here: None,
        };
        let report = Report {
            client: "user_id:a\n  few  \u{9b}31m\u{202e}".to_owned(),
            plan: None,
            overridden: None,
            plan_by_token: false,
            without_store: None,
            limits: vec![limit("few"), limit("名前名前名前")],
            unlimited: Vec::new(),
            unlisted: Vec::new(),
            shared: vec!["all\nothers".to_owned()],
            per_plan: Vec::new(),
            keys: Vec::new(),
        };
        let text = client_table(&report, false);
        let hidden = |char: char| char != '\n' && tidegate_status::shown(char) != char;
        assert!(!text.contains(hidden), "{text:?}");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[3].contains("名前名前名前"), "{text}");
        let columns = |line: &str| width(line.split_once("fixed_window").unwrap().0);
        assert_eq!(columns(lines[2]), columns(lines[3]), "{text}");
    }
}
