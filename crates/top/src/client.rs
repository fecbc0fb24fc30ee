//! One client's budgets in a table.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_status::client::{Decides, Report, Standing};

/// How a client stands, as `tidegate client` prints it: a row per budget, then what is not in it. `is_reset`: after a reset.
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
    rows.extend(report.limits.iter().map(row));
    let widths: [usize; 7] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    });
    let mut text = report.client.clone();
    if let Some(plan) = &report.plan {
        let _ = write!(text, ", of the plan {plan}");
    }
    text.push('\n');
    if let Some(it) = &report.overridden {
        let _ = writeln!(text, "override for {}: {}", it.by, it.does);
    }
    if let Some(reason) = &report.without_store {
        let _ = writeln!(text, "{reason}: this is what this gateway knows by itself");
    }
    if report.plan_by_token {
        text.push_str(
            "the token of a user names the plan; these are the numbers of users without a plan\n",
        );
    }
    if report.limits.is_empty() {
        text.push_str("no limit counts this client\n");
        rows.clear();
    }
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, "  {cell:<width$}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push_str(&without_store(report));
    let here = report.limits.iter().filter(|it| it.this_gateway_only);
    let mut here: Vec<&str> = here.map(|it| it.name.as_str()).collect();
    here.dedup();
    if !here.is_empty() {
        let what = match is_reset {
            false => "counted by this gateway alone",
            true => "reset on this gateway alone, since each gateway counts by itself",
        };
        let _ = writeln!(text, "{what}: {}", here.join(", "));
    }
    if !report.unlimited.is_empty() {
        let names = report.unlimited.join(", ");
        let _ = writeln!(text, "unlimited under this plan: {names}");
    }
    if !report.unlisted.is_empty() {
        let unlisted = report.unlisted.iter();
        let names = unlisted.map(|it| format!("{} (per {})", it.name, it.per.join(", ")));
        let names: Vec<String> = names.collect();
        let _ = writeln!(
            text,
            "not listed, because they count per something that only a request has: {}",
            names.join("; ")
        );
    }
    if !report.shared.is_empty() {
        let _ = writeln!(text, "shared with others: {}", report.shared.join(", "));
    }
    text
}

/// What this gateway goes by while Redis does not answer: nothing if it does.
fn without_store(report: &Report) -> String {
    let mut text = String::new();
    for (decides, what) in [
        (Decides::Share, "decided here, by this gateway's share"),
        (Decides::Open, "not limited without Redis"),
        (Decides::Closed, "answered 503 without Redis"),
    ] {
        let limits = report.limits.iter();
        let of = limits.filter(|it| {
            it.known_here
                .as_ref()
                .is_some_and(|it| it.decides == decides)
        });
        let names: Vec<String> = of.map(name).collect();
        if !names.is_empty() {
            let _ = writeln!(text, "{what}: {}", names.join(", "));
        }
    }
    for limit in &report.limits {
        let Some(known) = &limit.known_here else {
            continue;
        };
        let name = name(limit);
        if let Some(left) = known.leased {
            let _ = writeln!(
                text,
                "borrowed from Redis, and spent first: {name}, {left} left"
            );
        }
        if let Some(last) = &known.last {
            let ago = lasting(last.seconds_ago);
            let _ = match last.refused_for {
                0 => writeln!(
                    text,
                    "Redis said last: {name}, {} left, {ago} ago",
                    last.remaining
                ),
                more => writeln!(
                    text,
                    "Redis said last: {name}, refused for {} more, {ago} ago",
                    lasting(more)
                ),
            };
        }
    }
    text
}

fn lasting(seconds: u64) -> String {
    humantime::format_duration(Duration::from_secs(seconds)).to_string()
}

fn name(standing: &Standing) -> String {
    match &standing.route {
        Some(route) => format!("{} on {route}", standing.name),
        None => standing.name.clone(),
    }
}

fn row(standing: &Standing) -> [String; 7] {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs());
    let mut name = name(standing);
    if standing.observed {
        name.push_str(" (only observed)");
    }
    // A window that nothing was used of has an end, too.
    let reset = match standing.remaining < standing.limit {
        true => standing.reset.saturating_sub(now),
        false => 0,
    };
    let is_held = standing.algorithm == "concurrency" && reset > 0;
    let until = |seconds: u64| match seconds {
        0 => "now".to_owned(),
        seconds => format!("in {}", lasting(seconds)),
    };
    let decides = standing.known_here.as_ref().map(|known| known.decides);
    // Nothing is counted here.
    if matches!(decides, Some(Decides::Open | Decides::Closed)) {
        let next = match standing.allowed {
            true => "now",
            false => "with Redis",
        };
        let none = || "-".to_owned();
        let per = standing.per.join(", ");
        let algorithm = standing.algorithm.clone();
        return [
            name,
            algorithm,
            per,
            none(),
            none(),
            none(),
            next.to_owned(),
        ];
    }
    [
        name,
        standing.algorithm.clone(),
        standing.per.join(", "),
        standing.remaining.to_string(),
        standing.limit.to_string(),
        match is_held {
            true => "as requests end".to_owned(),
            false => until(reset),
        },
        until(standing.retry_after),
    ]
}
