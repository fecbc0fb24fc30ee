//! What this process knows of all overrides: a copy of what stands in Redis, or all there is.
//!
//! Of two records of one name the one with the higher version counts. A cleared override is remembered for a time, so that a record
//! that another gateway brings back does not count.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tidegate_core::Micros;

use crate::name::Subject;
use crate::setting::{Clearing, Override, Setting};

/// What is known of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) version: u64,
    /// Until when it counts; none: for ever.
    pub(crate) ends: Option<Micros>,
    pub(crate) content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// There was an override, which was cleared.
    Cleared(Arc<Clearing>),
    Set(Arc<Setting>),
    /// It cannot be read: another version of the program may have written it. It is kept, and not in force.
    Unreadable(Arc<str>),
}

/// How the content of a cleared one begins. Nothing stands for one, too.
const CLEARED: char = '-';

/// A change that this process has learned of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Whom the override is for.
    pub subject: Subject,
    /// What was in force before.
    pub before: Option<Override>,
    /// What is in force now.
    pub after: Option<Override>,
    /// Who has cleared it, as far as that is known; none: it was set, or has ended by itself.
    pub cleared: Option<Arc<Clearing>>,
}

/// All records, by name.
#[derive(Debug, Default)]
pub(crate) struct Replica {
    records: HashMap<Subject, Record>,
    // Those that end, by when: also cleared ones, which are remembered until then.
    ending: BTreeMap<(Micros, u64), Subject>,
    version: u64,
    set: usize,
}

impl Record {
    /// Reads the form in which records are stored: `version ends content`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (version, rest) = text.split_once(' ')?;
        let (ends, content) = rest.split_once(' ')?;
        let ends: Micros = ends.parse().ok()?;
        let content = match content.strip_prefix(CLEARED) {
            // Whoever cleared it, and why, may be lost.
            Some(clearing) => {
                let clearing = serde_json::from_str(clearing).unwrap_or_default();
                Content::Cleared(Arc::new(clearing))
            }
            None if content.is_empty() => Content::Cleared(Arc::default()),
            None => match serde_json::from_str(content) {
                Ok(setting) => Content::Set(Arc::new(setting)),
                Err(_) => Content::Unreadable(content.into()),
            },
        };
        Some(Self {
            version: version.parse().ok()?,
            ends: Some(ends).filter(|ends| *ends != 0),
            content,
        })
    }

    /// The form in which it is stored.
    pub(crate) fn written(&self) -> String {
        let ends = self.ends.unwrap_or(0);
        format!("{} {ends} {}", self.version, self.content.written())
    }

    /// Whether it no longer counts.
    pub(crate) fn is_over(&self, now: Micros) -> bool {
        self.ends.is_some_and(|ends| ends <= now)
    }

    const fn is_set(&self) -> bool {
        !matches!(self.content, Content::Cleared(_))
    }

    /// The override that it is, if it is in force.
    pub(crate) fn of(&self, subject: &Subject, now: Micros) -> Option<Override> {
        (!self.is_over(now)).then(|| self.says(subject)).flatten()
    }

    /// The override that it is, at whatever time.
    pub(crate) fn says(&self, subject: &Subject) -> Option<Override> {
        let Content::Set(setting) = &self.content else {
            return None;
        };
        Some(Override {
            subject: subject.clone(),
            version: self.version,
            ends: self.ends,
            setting: setting.clone(),
        })
    }
}

impl Content {
    /// The form in which it is stored.
    pub(crate) fn written(&self) -> String {
        match self {
            // Strings always become JSON.
            Self::Cleared(clearing) => {
                let clearing = serde_json::to_string(&**clearing).unwrap_or_default();
                format!("{CLEARED}{clearing}")
            }
            Self::Set(setting) => serde_json::to_string(&**setting).unwrap_or_default(),
            Self::Unreadable(text) => text.as_ref().to_owned(),
        }
    }
}

impl Replica {
    /// The highest version that is known.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// How many overrides are set, also such as are over and not dropped yet.
    pub(crate) const fn set(&self) -> usize {
        self.set
    }

    /// How many cleared ones are remembered.
    pub(crate) fn cleared(&self) -> usize {
        self.records.len() - self.set
    }

    /// Takes a record, unless a later one of this name is known: then nothing changes.
    pub(crate) fn merge(
        &mut self,
        subject: Subject,
        record: Record,
        now: Micros,
    ) -> Option<Change> {
        self.version = self.version.max(record.version);
        let known = self.records.get(&subject);
        if known.is_some_and(|known| known.version >= record.version) {
            return None;
        }
        let before = known.and_then(|known| known.of(&subject, now));
        self.forget(&subject);
        let after = record.of(&subject, now);
        if record.is_set() {
            self.set += 1;
        }
        let cleared = match &record.content {
            Content::Cleared(clearing) => Some(clearing.clone()),
            Content::Set(_) | Content::Unreadable(_) => None,
        };
        if let Some(ends) = record.ends {
            self.ending.insert((ends, record.version), subject.clone());
        }
        self.records.insert(subject.clone(), record);
        (before.is_some() || after.is_some()).then_some(Change {
            subject,
            before,
            after,
            cleared,
        })
    }

    /// Drops a record, whatever it says.
    pub(crate) fn forget(&mut self, subject: &Subject) {
        let Some(record) = self.records.remove(subject) else {
            return;
        };
        if record.is_set() {
            self.set -= 1;
        }
        if let Some(ends) = record.ends {
            self.ending.remove(&(ends, record.version));
        }
    }

    /// What is known of a name.
    pub(crate) fn record(&self, subject: &Subject) -> Option<&Record> {
        self.records.get(subject)
    }

    /// The override of a name that is in force.
    pub(crate) fn get(&self, subject: &Subject, now: Micros) -> Option<Override> {
        self.records.get(subject)?.of(subject, now)
    }

    /// All overrides that are in force, in no order.
    pub(crate) fn in_force(&self, now: Micros) -> impl Iterator<Item = Override> {
        let all = self.records.iter();
        all.filter_map(move |(subject, record)| record.of(subject, now))
    }

    /// Those in force whose name is behind `after`, by name, `most` at most; and whether there are more. It copies none but these,
    /// because whoever may look may ask for it all the time.
    pub(crate) fn page(
        &self,
        after: Option<&Subject>,
        most: usize,
        now: Micros,
    ) -> (Vec<Override>, bool) {
        let all = self.records.iter();
        let mut found: Vec<_> = all
            .filter(|(subject, it)| {
                let is_behind = after.is_none_or(|after| *subject > after);
                is_behind && matches!(it.content, Content::Set(_)) && !it.is_over(now)
            })
            .collect();
        let has_more = found.len() > most;
        if has_more {
            found.select_nth_unstable_by_key(most, |(subject, _)| *subject);
            found.truncate(most);
        }
        found.sort_unstable_by_key(|(subject, _)| *subject);
        let found = found.into_iter();
        let page = found.filter_map(|(subject, it)| it.of(subject, now));
        (page.collect(), has_more)
    }

    /// The overrides that are in force with the highest versions, `most` at most, the highest first.
    pub(crate) fn latest(&self, most: usize, now: Micros) -> Vec<Override> {
        let all = self.records.iter();
        let in_force =
            all.filter(|(_, it)| matches!(it.content, Content::Set(_)) && !it.is_over(now));
        let mut in_force: Vec<_> = in_force.collect();
        let highest = |(_, record): &(&Subject, &Record)| std::cmp::Reverse(record.version);
        if in_force.len() > most {
            in_force.select_nth_unstable_by_key(most, highest);
            in_force.truncate(most);
        }
        in_force.sort_unstable_by_key(highest);
        let shown = in_force.into_iter();
        shown
            .filter_map(|(subject, record)| record.of(subject, now))
            .collect()
    }

    /// Drops all records but those for which `stays` says so.
    pub(crate) fn keep_only(&mut self, stays: impl Fn(&Subject) -> bool) {
        let gone: Vec<Subject> = self
            .records
            .keys()
            .filter(|it| !stays(it))
            .cloned()
            .collect();
        for subject in &gone {
            self.forget(subject);
        }
    }

    /// All records.
    pub(crate) fn records(&self) -> impl Iterator<Item = (&Subject, &Record)> {
        self.records.iter()
    }

    /// When the next record ends.
    pub(crate) fn next_end(&self, after: Micros) -> Option<Micros> {
        let behind = self.ending.range((after + 1, 0)..);
        behind.map(|((ends, _), _)| *ends).next()
    }

    /// Names and versions of records that are over, `most` at most, those that ended first.
    pub(crate) fn over(&self, now: Micros, most: usize) -> Vec<(Subject, u64)> {
        let over = self.ending.range(..=(now, u64::MAX)).take(most);
        over.map(|((_, version), subject)| (subject.clone(), *version))
            .collect()
    }

    /// Overrides that ended after `since`, and by `now`.
    pub(crate) fn ended(&self, since: Micros, now: Micros) -> Vec<Override> {
        if now <= since {
            return Vec::new();
        }
        let ended = self.ending.range((since + 1, 0)..=(now, u64::MAX));
        let before = |(_, subject): (_, &Subject)| self.records.get(subject)?.of(subject, since);
        ended.filter_map(before).collect()
    }

    /// Names and versions of the cleared ones that are remembered, `most` at most, those that were cleared first.
    pub(crate) fn earliest_cleared(&self, most: usize) -> Vec<(Subject, u64)> {
        let all = self.records.iter();
        let cleared = all.filter(|(_, record)| !record.is_set());
        let mut cleared: Vec<_> = cleared
            .map(|(subject, record)| (subject.clone(), record.version))
            .collect();
        cleared.sort_unstable_by_key(|(_, version)| *version);
        cleared.truncate(most);
        cleared
    }
}

#[cfg(test)]
mod tests;
