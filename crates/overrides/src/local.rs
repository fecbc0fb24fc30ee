//! Changes to the table of a gateway without Redis. The changes follow the rules of `lua/override.lua`. A file may keep the table.

use std::collections::HashMap;
use std::io;

use parking_lot::Mutex;
use tidegate_core::micros;

use crate::MAX_OVERRIDES;
use crate::change::{Done, Ends, Expected, Intent, Outcome, Wish};
use crate::file::OverrideFile;
use crate::name::Subject;
use crate::table::{Entry, Table};

/// Decides which changes can be made at the table's current time, and appends them to the file. The table does not change. The conditions
/// of each change apply to the result of the previous changes. Only one call may run at a time. Fails if the file cannot be written.
pub(crate) fn change(
    table: &Mutex<Table>,
    file: Option<&Mutex<OverrideFile>>,
    wishes: &[Wish],
) -> io::Result<Vec<Done>> {
    let (all, newest) = decide(&table.lock(), wishes);
    // The table is not locked while the disk writes.
    if let Some(file) = file
        && !newest.is_empty()
    {
        let made = newest.iter().map(|(subject, entry)| (*subject, entry));
        file.lock().append(made, table)?;
    }
    Ok(all)
}

/// Returns the outcome of each wish, and the last entry of each name.
fn decide<'a>(table: &Table, wishes: &'a [Wish]) -> (Vec<Done>, HashMap<&'a Subject, Entry>) {
    let (now, mut version) = (table.now(), table.version());
    let mut holding = table.holding();
    let mut newest: HashMap<&Subject, Entry> = HashMap::new();
    let mut all = Vec::with_capacity(wishes.len());
    for wish in wishes {
        let entry = newest.get(&wish.subject);
        let entry = entry.or_else(|| table.entries().get(&wish.subject));
        let before = entry.filter(|it| it.holds(now)).cloned();
        let is_expected = match wish.expected {
            Expected::Any => true,
            Expected::Nothing => before.is_none(),
            Expected::Version(version) => before.as_ref().is_some_and(|it| it.version == version),
        };
        let clears = matches!(wish.intent, Intent::Clear(_));
        let ends = match wish.ends {
            _ if clears => Some(now),
            Ends::Never => None,
            Ends::After(time) => Some(now.saturating_add(micros(time))),
            Ends::At(time) => Some(time),
        };
        let outcome = if !is_expected {
            Outcome::Conflict(before.and_then(|it| it.of(&wish.subject)))
        } else if clears && before.is_none() {
            Outcome::Nothing
        } else if !clears && before.is_none() && holding >= MAX_OVERRIDES {
            Outcome::Full
        } else if !clears && ends.is_some_and(|ends| ends <= now) {
            Outcome::Over
        } else {
            version = now.max(version + 1);
            holding = holding + usize::from(!clears) - usize::from(before.is_some());
            let entry = Entry::new(version, ends, &wish.content());
            newest.insert(&wish.subject, entry.clone());
            all.push(Outcome::made(&wish.subject, entry, before));
            continue;
        };
        all.push((outcome, None));
    }
    (all, newest)
}
