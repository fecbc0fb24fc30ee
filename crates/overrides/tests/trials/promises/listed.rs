//! The listed overrides are the enforced ones.

use std::collections::HashMap;

use tidegate_core::Micros;

use super::{Breach, LISTED};
use crate::history::History;

/// A difference may last this long: a change, or an end, reaches both one after the other.
const LONGEST: Micros = 250_000;

/// Looks further apart than that show no difference that lasts.
const GAP: Micros = 100_000;

pub(super) fn broken(history: &History, subject: usize) -> Vec<Breach> {
    let mut broken = Vec::new();
    // By gateway, since when they differ, and the last look.
    let mut differs: HashMap<usize, (Micros, Micros)> = HashMap::new();
    let mut looks: Vec<_> = history.looks.iter().collect();
    looks.sort_by_key(|look| look.span.begin);
    for look in looks {
        let (enforced, listed) = (look.enforced[subject], look.listed[subject]);
        if enforced == listed {
            differs.remove(&look.gateway);
            continue;
        }
        let at = look.span.begin;
        let (since, last) = differs.entry(look.gateway).or_insert((at, at));
        if at > *last + GAP {
            *since = at;
        }
        *last = at;
        if at > *since + LONGEST {
            let id = |entry: Option<crate::history::Entry>| match entry {
                Some(entry) => format!("the override of change {}", entry.change),
                None => "none".to_owned(),
            };
            broken.push(Breach {
                promise: LISTED.name,
                subject,
                at,
                text: format!(
                    "gateway {} lists {} and enforces {}",
                    look.gateway,
                    id(listed),
                    id(enforced)
                ),
            });
            break;
        }
    }
    broken
}
