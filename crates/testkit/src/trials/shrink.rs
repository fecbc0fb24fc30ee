//! Reduces a trial with a finding. Leaves out work, faults, limits and extras while the trial still has the finding.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::name::Name;
use super::servers::Servers;
use super::trial::{Trial, judged};

/// The longest time for the reduction of one finding.
const LONGEST: Duration = Duration::from_secs(60);

/// The number of runs that a smaller trial must pass to count as a trial without the finding. One run is too few, because the result of a
/// run does not depend on the seed alone.
const TRIES: usize = 3;

/// Returns the smallest trial found that breaks the same promise.
pub(super) async fn shrink<T: Trial>(finding: T, servers: &Arc<Servers>) -> T {
    let deadline = Instant::now() + LONGEST;
    let mut smallest = finding;
    let mut size = smallest.parts().work.len().div_ceil(2).max(1);
    loop {
        let mut smaller = false;
        for name in candidates(smallest.name(), &smallest.parts(), size) {
            if Instant::now() > deadline {
                return smallest;
            }
            if let Some(finding) = still(&smallest, &name, servers).await {
                smallest = finding;
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

async fn still<T: Trial>(finding: &T, name: &Name, servers: &Arc<Servers>) -> Option<T> {
    let promise = *finding.broken().first()?;
    for _ in 0..TRIES {
        let mut trial = judged::<T>(name, servers).await;
        if trial.broken().contains(&promise) {
            trial.keep_only(promise);
            return Some(trial);
        }
    }
    None
}

/// Returns the names of trials without one limit, one fault, one extra, or this many pieces of work. `parts` has the numbers of all parts
/// of the trial.
fn candidates(name: &Name, parts: &Name, size: usize) -> Vec<Name> {
    let mut names = Vec::new();
    let without = |part: fn(&mut Name) -> &mut BTreeSet<usize>, numbers: &[usize]| {
        let mut name = name.clone();
        part(&mut name).extend(numbers);
        name
    };
    if parts.limits.len() > 1 {
        let limits = parts.limits.iter();
        names.extend(limits.map(|nth| without(|name| &mut name.limits, &[*nth])));
    }
    let faults = parts.faults.iter();
    names.extend(faults.map(|nth| without(|name| &mut name.faults, &[*nth])));
    let extras = parts.extras.iter();
    names.extend(extras.map(|nth| without(|name| &mut name.extras, &[*nth])));
    let work: Vec<usize> = parts.work.iter().copied().collect();
    if work.len() > 1 {
        let pieces = work.chunks(size.min(work.len() - 1).max(1));
        names.extend(pieces.map(|piece| without(|name| &mut name.work, piece)));
    }
    names
}
