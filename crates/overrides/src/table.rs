//! The table of all overrides, by name. It has an entry for each override in force, and for each ended override.
//!
//! For each name the entry with the highest version is valid, even if the entry has ended. An ended entry is kept for 30 days, so that an
//! older entry of its name is not restored.
//!
//! The table has a current time. When the time advances, overrides end. When the time is set back, overrides whose end is then in the
//! future are in force again.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Micros, micros};

use crate::name::Subject;
use crate::setting::{Change, Clearing, Override, Setting};

/// The most entries of a table, in force and ended. Beyond this number the entries that ended first are dropped.
pub(crate) const MAX_ENTRIES: usize = 2 * crate::MAX_OVERRIDES;
/// The first character in the content of a cleared entry. Empty content also means cleared.
const CLEARED: char = '-';

/// The newest entry of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) version: u64,
    /// The time at which the entry ends. `None` if it never ends. A cleared entry ends when it is cleared.
    pub(crate) ends: Option<Micros>,
    /// The content as it is stored.
    content: Box<str>,
    // `None` if the entry is cleared, or if this version of the program cannot read its content. Such an entry is never in force.
    setting: Option<Arc<Setting>>,
}

/// All entries, and the current time.
#[derive(Debug, Default)]
pub(crate) struct Table {
    now: Micros,
    // The time for which an ended entry is kept, in us.
    kept: Micros,
    entries: BTreeMap<Subject, Entry>,
    // The names by end. The `None` in range bounds sorts before every name.
    ends: BTreeSet<(Micros, Option<Subject>)>,
    version: u64,
    // The number of entries for which `Entry::holds` is true.
    holding: usize,
}

impl Entry {
    pub(crate) fn new(version: u64, ends: Option<Micros>, content: &str) -> Self {
        Self {
            version,
            ends,
            content: content.into(),
            setting: serde_json::from_str(content).ok().map(Arc::new),
        }
    }

    /// Reads the form in which entries are stored: `version ends content`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (version, rest) = text.split_once(' ')?;
        let (ends, content) = rest.split_once(' ')?;
        let ends: Micros = ends.parse().ok()?;
        let ends = Some(ends).filter(|ends| *ends != 0);
        Some(Self::new(version.parse().ok()?, ends, content))
    }

    /// Returns the stored form of the entry.
    pub(crate) fn written(&self) -> String {
        let ends = self.ends.unwrap_or(0);
        format!("{} {ends} {}", self.version, self.content)
    }

    /// Whether the entry is newer than another entry of its name. Two servers that ran apart may have used the same version, so among
    /// entries of equal version the entry with the greater text is newer.
    pub(crate) fn is_newer(&self, than: &Self) -> bool {
        match self.version.cmp(&than.version) {
            Ordering::Equal => self != than && self.written() > than.written(),
            order => order.is_gt(),
        }
    }

    pub(crate) fn is_over(&self, now: Micros) -> bool {
        self.ends.is_some_and(|ends| ends <= now)
    }

    /// Whether the entry sets an override and does not clear one. The override may be unreadable or ended.
    pub(crate) fn is_set(&self) -> bool {
        !self.content.is_empty() && !self.content.starts_with(CLEARED)
    }

    /// Whether the entry sets an override that has not ended. True even for an override that cannot be read.
    pub(crate) fn holds(&self, now: Micros) -> bool {
        self.is_set() && !self.is_over(now)
    }

    /// Returns the author and the reason of a clearing. The author and the reason may be empty.
    fn clearing(&self) -> Option<Arc<Clearing>> {
        let text = self.content.strip_prefix(CLEARED).unwrap_or_default();
        (!self.is_set()).then(|| Arc::new(serde_json::from_str(text).unwrap_or_default()))
    }

    /// Returns the override that the entry sets, even if it has ended.
    pub(crate) fn of(&self, subject: &Subject) -> Option<Override> {
        Some(Override {
            subject: subject.clone(),
            version: self.version,
            ends: self.ends,
            setting: self.setting.clone()?,
        })
    }

    fn in_force(&self, subject: &Subject, now: Micros) -> Option<Override> {
        (!self.is_over(now)).then(|| self.of(subject)).flatten()
    }
}

/// Returns the content of a cleared override.
pub(crate) fn cleared(clearing: &Clearing) -> String {
    // Strings can always be serialized, so the default is never used.
    let text = serde_json::to_string(clearing).unwrap_or_default();
    format!("{CLEARED}{text}")
}

impl Table {
    /// Makes a table that keeps ended entries for the time `kept`.
    pub(crate) fn new(kept: Duration) -> Self {
        Self {
            kept: micros(kept),
            ..Self::default()
        }
    }

    /// Sets the current time, and drops entries that ended long ago. Returns the overrides that end, or that are in force again.
    pub(crate) fn advance(&mut self, now: Micros) -> Vec<Change> {
        let before = std::mem::replace(&mut self.now, now);
        let behind = |time: Micros| (time.saturating_add(1), None);
        let crossed = self
            .ends
            .range(behind(before.min(now))..behind(before.max(now)));
        let mut changes = Vec::new();
        for (_, subject) in crossed {
            let subject = subject.as_ref();
            let Some((subject, entry)) = subject.and_then(|it| self.entries.get_key_value(it))
            else {
                continue;
            };
            let (is_set, it) = (usize::from(entry.is_set()), entry.of(subject));
            changes.extend(if now > before {
                self.holding -= is_set;
                Change::new(it, None)
            } else {
                self.holding += is_set;
                Change::new(None, it)
            });
        }
        let long_ago = now.saturating_sub(self.kept);
        while let Some((ends, Some(subject))) = self.ends.first()
            && (*ends <= long_ago || *ends <= now && self.entries.len() > MAX_ENTRIES)
        {
            let subject = subject.clone();
            self.remove(&subject);
        }
        changes
    }

    /// Stores an entry if it is newer than the present entry of this name.
    pub(crate) fn merge(&mut self, subject: &Subject, entry: Entry) -> Option<Change> {
        self.saw(entry.version);
        let previous = self.entries.get(subject);
        if previous.is_some_and(|previous| !entry.is_newer(previous)) {
            return None;
        }
        let before = previous.and_then(|previous| previous.in_force(subject, self.now));
        self.remove(subject);
        let change = Change::new(before, entry.in_force(subject, self.now));
        let cleared = entry.clearing();
        self.holding += usize::from(entry.holds(self.now));
        if let Some(ends) = entry.ends {
            self.ends.insert((ends, Some(subject.clone())));
        }
        self.entries.insert(subject.clone(), entry);
        change.map(|change| Change { cleared, ..change })
    }

    /// Drops an entry. Returns the change if the entry's override was in force.
    pub(crate) fn remove(&mut self, subject: &Subject) -> Option<Change> {
        let entry = self.entries.remove(subject)?;
        self.holding -= usize::from(entry.holds(self.now));
        if let Some(ends) = entry.ends {
            self.ends.remove(&(ends, Some(subject.clone())));
        }
        Change::new(entry.in_force(subject, self.now), None)
    }

    pub(crate) const fn now(&self) -> Micros {
        self.now
    }

    /// Returns the highest version that an entry or the store had.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Records that the store has this version.
    pub(crate) fn saw(&mut self, version: u64) {
        self.version = self.version.max(version);
    }

    pub(crate) fn entries(&self) -> &BTreeMap<Subject, Entry> {
        &self.entries
    }

    pub(crate) const fn holding(&self) -> usize {
        self.holding
    }

    pub(crate) fn get(&self, subject: &Subject) -> Option<Override> {
        self.entries.get(subject)?.in_force(subject, self.now)
    }

    /// Returns the overrides in force, by name, that follow the name `after`.
    pub(crate) fn in_force(&self, after: Option<&Subject>) -> impl Iterator<Item = Override> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = self.entries.range::<Subject, _>((after, Bound::Unbounded));
        entries.filter_map(|(subject, it)| it.in_force(subject, self.now))
    }

    pub(crate) fn next_end(&self) -> Option<Micros> {
        let ahead = self.ends.range((self.now.saturating_add(1), None)..);
        ahead.map(|(ends, _)| *ends).next()
    }
}

#[cfg(test)]
mod tests;
