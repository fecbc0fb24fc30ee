//! `tidegate client`: one client's budgets on a running gateway, through its admin port.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use http::Method;
use tidegate_top::escaped;

use super::{Failure, running};
use crate::runtime::budgets::{Report, Standing};

/// Whose budgets, and what to do with them.
#[derive(Debug, Args)]
pub(super) struct Question {
    /// The client: api_key:NAME, user_id:ID or ip:ADDRESS.
    name: String,
    /// The action.
    task: Task,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Task {
    /// Prints what each limit has left.
    Show,
    /// Resets all budgets of the client, then prints them.
    Reset,
}

/// Asks the gateway that runs by this configuration, and prints its answer.
pub(super) fn run(config: &Path, question: &Question) -> Result<(), Failure> {
    let (plan, _) = super::load(config)?;
    let name = escaped(&question.name);
    let (method, path) = match question.task {
        Task::Show => (Method::GET, format!("/clients/{name}")),
        Task::Reset => (Method::POST, format!("/clients/{name}/reset")),
    };
    let report = running::ask(&plan.admin, method, &path)?;
    super::print(&table(&report, question.task));
    Ok(())
}

/// The report as people read it: a row per budget, then what is not in it.
fn table(report: &Report, task: Task) -> String {
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
    let here = report.limits.iter().filter(|it| it.this_gateway_only);
    let mut here: Vec<&str> = here.map(|it| it.name.as_str()).collect();
    here.dedup();
    if !here.is_empty() {
        let what = match task {
            Task::Show => "counted by this gateway alone",
            Task::Reset => "reset on this gateway alone, since each gateway counts by itself",
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

fn row(standing: &Standing) -> [String; 7] {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs());
    let mut name = match &standing.route {
        Some(route) => format!("{} on {route}", standing.name),
        None => standing.name.clone(),
    };
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
        seconds => format!(
            "in {}",
            humantime::format_duration(Duration::from_secs(seconds))
        ),
    };
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
