//! A refusal, as `tidegate why` prints it.

use std::time::{Duration, UNIX_EPOCH};

use tidegate_status::document::Refused;

use crate::text::clean;

/// Describes a refusal, with one line for each fact.
pub fn refusal_lines(refused: &Refused) -> String {
    let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(refused.at));
    let status = match refused.status {
        Some(status) => status.to_string(),
        None => "no answer".to_owned(),
    };
    let retry_after = refused.retry_after.map(|seconds| format!("{seconds} s"));
    let facts = [
        ("time", Some(time.to_string())),
        ("status", Some(status)),
        ("outcome", Some(refused.outcome.clone())),
        ("error", refused.error.clone()),
        ("client", refused.client.clone()),
        ("route", Some(refused.route.clone())),
        ("limit", refused.limit.clone()),
        ("denied by", refused.denied_by.clone()),
        ("retry after", retry_after),
    ];
    let lines = facts.into_iter().filter_map(|(name, fact)| {
        let name = format!("{name}:");
        Some(format!("{name:<13}{}\n", clean(&fact?)))
    });
    lines.collect()
}
