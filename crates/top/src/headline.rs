//! The lines above every tab: the state of the gateways, and the reason for it.

use tidegate_status::document::{State, Status};

use crate::table::count;

/// Counts of gateways.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gateways {
    /// The number of gateways whose last answer was a valid `/status.json`.
    pub(crate) answering: usize,
    /// The number of all gateways.
    pub(crate) all: usize,
}

/// Formats the state of these gateways, and their requests in the last minute.
pub(crate) fn headline(status: &Status, gateways: Gateways) -> String {
    let state = match status.health.state {
        State::Ok => "healthy",
        State::Warning => "WARNING",
        State::Failing => "FAILING",
    };
    let minute = &status.requests.minute;
    let share = 100.0 * minute.refused as f64 / minute.all.max(1) as f64;
    let many = match gateways {
        Gateways { all: 0 | 1, .. } => String::new(),
        Gateways { answering, all } if answering == all => format!("sum of {all} gateways  "),
        Gateways { answering, all } => format!("{answering} of {all} gateways  "),
    };
    format!(
        "{state}  {many}last minute: {} requests, {} refused ({share:.1} %), {} failed, mean {:.1} ms",
        count(minute.all),
        count(minute.refused),
        count(minute.failed),
        minute.mean_ms
    )
}

/// Returns the first reason for a state that is not healthy. Adds the number of further reasons.
pub(crate) fn reason(status: &Status) -> Option<String> {
    let (first, more) = status.health.reasons.split_first()?;
    Some(match more.len() {
        0 => first.clone(),
        more => format!("{first} (and {more} more)"),
    })
}
