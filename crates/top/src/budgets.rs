//! One client's budgets, as `/clients/{name}` of the admin port has them.

use std::fmt::Write as _;

use serde::Deserialize;

use crate::table::{Row, Table, count};

/// What is known of one client.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Budgets {
    plan: Option<String>,
    /// Why the store did not say it: then the numbers are the gateway's own.
    without_store: Option<String>,
    limits: Vec<Standing>,
    shared: Vec<String>,
}

/// How the client stands with one limit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Standing {
    name: String,
    route: Option<String>,
    limit: u64,
    remaining: u64,
    retry_after: u64,
}

impl Budgets {
    pub(crate) fn table(&self) -> Table {
        let rows = self.limits.iter().map(|limit| {
            let name = match &limit.route {
                Some(route) => format!("{} on {route}", limit.name),
                None => limit.name.clone(),
            };
            let next = match limit.retry_after {
                0 => "now".to_owned(),
                seconds => format!("in {seconds} s"),
            };
            Row::of(
                [name, count(limit.remaining), count(limit.limit), next],
                limit.remaining,
            )
        });
        Table {
            heads: vec!["LIMIT", "LEFT", "OF", "NEXT"],
            rows: rows.collect(),
        }
    }

    pub(crate) fn note(&self) -> String {
        let mut note = String::new();
        if let Some(plan) = &self.plan {
            let _ = write!(note, "plan {plan}  ");
        }
        if let Some(reason) = &self.without_store {
            let _ = write!(note, "{reason}: this gateway's own numbers  ");
        }
        if !self.shared.is_empty() {
            let _ = write!(note, "shared with others: {}", self.shared.join(", "));
        }
        note
    }
}

/// A client's name as one segment of a path. All but letters, digits and a few signs is escaped.
pub fn escaped(name: &str) -> String {
    name.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}
