//! Describes the effects of a limit that are not usual.

use std::fmt::Write as _;

use tidegate_tower::{Action, Rule};

/// Formats a status or a class of statuses, as in the configuration.
fn written_statuses((first, last): &(u16, u16)) -> String {
    match first == last {
        true => first.to_string(),
        false => format!("{}xx", first / 100),
    }
}

/// Formats the effects of a limit that are not usual. A usual limit counts every request, and rejects requests that exceed it.
pub(super) fn does(rule: &Rule) -> String {
    let mut does = String::new();
    if let Some(statuses) = &rule.count {
        let statuses: Vec<_> = statuses.iter().map(written_statuses).collect();
        let _ = write!(does, "; counts answers with {}", statuses.join(", "));
    }
    if let Some(notify) = &rule.notify {
        let shares: Vec<_> = notify.at.iter().map(|at| format!("{at}%")).collect();
        let receiver = match &notify.webhook {
            Some(_) => "a webhook",
            None => "the log",
        };
        let _ = write!(does, "; events to {receiver} at {}", shares.join(", "));
    }
    if rule.limit.is_observed() {
        return does + "; only observes";
    }
    if rule.limit.quota().is_queue() && !rule.nodelay {
        does.push_str("; what it admits waits for its turn");
    }
    match rule.action {
        Action::Reject => does,
        Action::Drop => does + "; drops what it refuses",
        Action::Delay { max } => {
            let max = humantime::format_duration(max);
            does + &format!("; what it refuses waits for up to {max}")
        }
    }
}
