//! Budgets of one limit in a table.

use tidegate_status::limit::{LimitBudget, LimitReport};

use crate::client::lasting_until;
use crate::text::{clean, left, width};

/// Formats a report as `tidegate limit` prints it: a row for each budget, and the cursor of the next keys.
pub fn limit_table(report: &LimitReport) -> String {
    let head = ["key", "used", "held", "left", "of", "all back", "windows"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(report.budgets.iter().map(|it| row(it).map(|it| clean(&it))));
    let widths: [usize; 7] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| width(&row[column]));
        cells.max().unwrap_or_default()
    });
    let per = match report.per.is_empty() {
        true => "one budget for all requests".to_owned(),
        false => format!("per {}", report.per.join(", ")),
    };
    let mut lines = vec![format!("{}: {}, {per}", report.limit, report.algorithm)];
    if let Some(it) = &report.overridden {
        lines.push(format!("override for {}: {}", it.by, it.does));
    }
    if report.budgets.is_empty() {
        lines.push("no budget".to_owned());
        rows.clear();
    }
    for row in &rows {
        let cells: [String; 7] = std::array::from_fn(|at| left(&row[at], widths[at]));
        lines.push(format!("  {}", cells.join("  ").trim_end()));
    }
    if report.budgets.iter().any(|it| it.this_gateway_only) {
        lines.push("counted by this gateway alone".to_owned());
    }
    if let Some(next) = &report.next {
        lines.push(format!("more keys: --cursor {next}"));
    }
    lines.iter().map(|line| clean(line) + "\n").collect()
}

fn row(budget: &LimitBudget) -> [String; 7] {
    let mut key = budget.key.clone();
    if let Some(route) = &budget.route {
        key.push_str(&format!(" on {route}"));
    }
    if let Some(plan) = &budget.plan {
        key.push_str(&format!(" (plan {plan})"));
    }
    // If no units of a window are used, `reset` is the end of the window, but all units are available.
    let reset = match budget.remaining < budget.limit {
        true => lasting_until(budget.reset),
        false => "now".to_owned(),
    };
    let windows = budget.windows.map(|windows| match windows.previous {
        Some(previous) => format!(
            "{} now, {previous} before, rate {}",
            windows.current, windows.rate
        ),
        None => format!("{} now", windows.current),
    });
    [
        key,
        budget.used.to_string(),
        budget.held.to_string(),
        budget.remaining.to_string(),
        budget.limit.to_string(),
        reset,
        windows.unwrap_or_default(),
    ]
}
