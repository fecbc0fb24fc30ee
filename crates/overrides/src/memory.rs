//! Overrides of a gateway without Redis: what `lua/override.lua` does, in this process.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_core::Micros;

use crate::MAX_OVERRIDES;
use crate::exchange::{Done, Ends, Expected, Order, REMEMBERED};
use crate::file::OverrideFile;
use crate::name::Subject;
use crate::replica::{Change, Content, Record, Replica};

/// The time by the system's clock, in us since the epoch.
pub(crate) fn now() -> Micros {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, micros)
}

fn micros(time: Duration) -> Micros {
    Micros::try_from(time.as_micros()).unwrap_or(Micros::MAX)
}

/// Makes changes, each if it may be made, and notes them in the file.
///
/// # Errors
///
/// The file cannot be written; then nothing has changed.
pub(crate) fn make(
    replica: &mut Replica,
    file: Option<&mut OverrideFile>,
    orders: &[Order],
    now: Micros,
) -> io::Result<(Vec<Done>, Vec<Change>)> {
    let next = replica.version().max(now.saturating_sub(1));
    let mut batch = Batch {
        replica,
        made: HashMap::new(),
        version: next,
        added: 0,
    };
    let (mut done, mut made) = (Vec::with_capacity(orders.len()), Vec::new());
    for order in orders {
        let of = batch.decide(order, now);
        if let Done::Made { record, .. } = &of {
            made.push((order.subject.clone(), record.clone()));
        }
        done.push(of);
    }
    if let Some(file) = file
        && !made.is_empty()
    {
        file.append(&made, replica)?;
    }
    let merged = made.into_iter();
    let changes = merged.filter_map(|(subject, record)| replica.merge(subject, record, now));
    let changes = changes.collect();
    Ok((done, changes))
}

/// Changes that are decided together, and made when the file has them. Each one sees those before it.
struct Batch<'a> {
    replica: &'a Replica,
    made: HashMap<Subject, Record>,
    version: u64,
    // How many more are set.
    added: isize,
}

impl Batch<'_> {
    fn decide(&mut self, order: &Order, now: Micros) -> Done {
        let known = self.made.get(&order.subject);
        let known = known.or_else(|| self.replica.record(&order.subject));
        let counts = |it: &&Record| !matches!(it.content, Content::Cleared(_));
        let is_counted = known.is_some_and(|it| counts(&it));
        let before = known.filter(counts).filter(|it| !it.is_over(now));
        let is_expected = match order.expected {
            Expected::Any => true,
            Expected::Nothing => before.is_none(),
            Expected::Version(version) => before.is_some_and(|it| it.version == version),
        };
        let clears = matches!(order.content, Content::Cleared(_));
        let ends = match order.ends {
            _ if clears => Some(now.saturating_add(micros(REMEMBERED))),
            Ends::Never => None,
            Ends::After(time) => Some(now.saturating_add(micros(time))),
            Ends::At(time) => Some(time),
        };
        if !is_expected {
            let current = before.cloned();
            Done::Conflict { current }
        } else if clears && before.is_none() {
            Done::Nothing
        } else if !clears
            && !is_counted
            && self.replica.set().saturating_add_signed(self.added) >= MAX_OVERRIDES
        {
            Done::Full
        } else if ends.is_some_and(|ends| ends <= now) {
            Done::Over
        } else {
            self.version += 1;
            self.added += isize::from(!clears) - isize::from(is_counted);
            let before = before.cloned();
            let record = Record {
                version: self.version,
                ends,
                content: order.content.clone(),
            };
            self.made.insert(order.subject.clone(), record.clone());
            Done::Made { record, before }
        }
    }
}
