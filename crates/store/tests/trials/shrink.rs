//! Makes a trial that has a finding smaller, as long as it has it: without some of its work, faults and limits.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::case::{Case, Name};
use crate::history::History;
use crate::promises::Breach;
use crate::servers::Servers;

/// How long that may take.
const LONGEST: Duration = Duration::from_secs(60);

/// How often a smaller trial may pass before it counts as one without the finding: not all of it follows from the seed.
const TRIES: usize = 3;

/// A trial, and how it broke a promise.
pub(crate) struct Finding {
    pub(crate) case: Case,
    pub(crate) history: History,
    pub(crate) broken: Vec<Breach>,
}

/// The smallest trial that was found to break the same promise.
pub(crate) async fn shrink(found: Finding, servers: &Arc<Servers>) -> Finding {
    let deadline = Instant::now() + LONGEST;
    let mut smallest = found;
    let mut size = smallest.case.work.len().div_ceil(2).max(1);
    loop {
        let mut smaller = false;
        for name in candidates(&smallest.case, size) {
            if Instant::now() > deadline {
                return smallest;
            }
            if let Some(found) = still(&smallest, &name, servers).await {
                smallest = found;
                smaller = true;
                break;
            }
        }
        if !smaller {
            if size == 1 {
                return smallest;
            }
            size /= 2;
        }
    }
}

async fn still(found: &Finding, name: &Name, servers: &Arc<Servers>) -> Option<Finding> {
    let promise = found.broken.first()?.promise;
    for _ in 0..TRIES {
        let (case, history, broken) = crate::judged(name, servers).await;
        if broken.iter().any(|breach| breach.promise == promise) {
            let of_it = broken
                .into_iter()
                .filter(|breach| breach.promise == promise);
            return Some(Finding {
                case,
                history,
                broken: of_it.collect(),
            });
        }
    }
    None
}

/// The names of trials without one limit, one fault, or so many pieces of work.
fn candidates(case: &Case, size: usize) -> Vec<Name> {
    let name = &case.name;
    let mut names = Vec::new();
    let without = |part: fn(&mut Name) -> &mut BTreeSet<usize>, numbers: &[usize]| {
        let mut name = name.clone();
        part(&mut name).extend(numbers);
        name
    };
    let limits = (0..case.limits.len()).filter(|nth| !name.limits.contains(nth));
    if limits.clone().count() > 1 {
        names.extend(limits.map(|nth| without(|name| &mut name.limits, &[nth])));
    }
    let faults = case.faults.iter().map(|fault| fault.nth);
    names.extend(faults.map(|nth| without(|name| &mut name.faults, &[nth])));
    let extras = case.extras.iter().map(|(nth, _)| *nth);
    names.extend(extras.map(|nth| without(|name| &mut name.extras, &[nth])));
    let work: Vec<usize> = case.work.iter().map(|work| work.nth).collect();
    if work.len() > 1 {
        let parts = work.chunks(size.min(work.len() - 1).max(1));
        names.extend(parts.map(|part| without(|name| &mut name.work, part)));
    }
    names
}
