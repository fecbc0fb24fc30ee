//! Lists of matches. The keys of a descriptor may have any order, and the first match counts.
//!
//! A list may have thousands of entries. So entries with the same keys are kept together, and entries that differ by exact values only are
//! looked up by these values.

use std::collections::HashMap;

use crate::domains::{Target, ValuePattern};

/// An element of a list under `domains`.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The keys of a descriptor, in alphabetical order, each with the values that match.
    keys: Vec<(Box<str>, ValuePattern)>,
    /// The limits of the descriptor.
    target: Target,
}

impl Entry {
    /// Makes an entry. It matches descriptors that have exactly these keys, in any order, each once.
    pub fn new(mut keys: Vec<(Box<str>, ValuePattern)>, target: Target) -> Self {
        keys.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self { keys, target }
    }
}

/// A list of entries. The first entry that matches a descriptor counts.
#[derive(Clone, Debug, Default)]
pub struct DomainList {
    entries: Vec<Entry>,
    /// The entries of each set of keys, which [`joined`] joins.
    of_keys: HashMap<Box<str>, Vec<Shape>>,
}

/// The entries that have the same keys, with exact values for the same of these keys.
#[derive(Clone, Debug)]
struct Shape {
    /// For each key, whether its value is exact.
    is_exact: Box<[bool]>,
    /// The indices of the entries with these exact values, which [`joined`] joins.
    of_values: HashMap<Box<str>, Vec<usize>>,
}

impl DomainList {
    /// Adds an entry to the end of the list.
    ///
    /// # Errors
    ///
    /// An earlier entry matches all descriptors that this entry matches. The error is the index of the earlier entry.
    pub fn add(&mut self, entry: Entry) -> Result<(), usize> {
        let keys = joined(entry.keys.iter().map(|(key, _)| &**key));
        let pattern = |at: usize| &entry.keys[at].1;
        let covers = |earlier: &ValuePattern, at| earlier.covers(pattern(at));
        if let Some(earlier) = self.first(&keys, |at| pattern(at).exact(), covers) {
            return Err(earlier);
        }
        let patterns = || entry.keys.iter().map(|(_, pattern)| pattern);
        let is_exact: Box<[bool]> = patterns().map(|it| it.exact().is_some()).collect();
        let values = joined(patterns().filter_map(ValuePattern::exact));
        let shapes = self.of_keys.entry(keys.into()).or_default();
        let at = shapes.iter().position(|shape| shape.is_exact == is_exact);
        let at = at.unwrap_or_else(|| {
            shapes.push(Shape {
                is_exact,
                of_values: HashMap::new(),
            });
            shapes.len() - 1
        });
        let indices = shapes[at].of_values.entry(values.into()).or_default();
        indices.push(self.entries.len());
        self.entries.push(entry);
        Ok(())
    }

    /// Returns the limits of a descriptor with these entries.
    pub(super) fn target(&self, entries: &[(&str, &str)]) -> Option<&Target> {
        let mut entries = entries.to_vec();
        entries.sort_unstable();
        if entries.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return None;
        }
        let keys = joined(entries.iter().map(|(key, _)| *key));
        let value = |at: usize| entries[at].1;
        let matches = |pattern: &ValuePattern, at| pattern.matches(value(at));
        let first = self.first(&keys, |at| Some(value(at)), matches)?;
        Some(&self.entries[first].target)
    }

    /// Returns the index of the first entry that has these keys and fits. `exact` returns the exact value of the key with this index.
    /// `fits` compares a pattern that is not exact with the value of the key.
    fn first<'v>(
        &self,
        keys: &str,
        exact: impl Fn(usize) -> Option<&'v str>,
        fits: impl Fn(&ValuePattern, usize) -> bool,
    ) -> Option<usize> {
        let of_shape = |shape: &Shape| {
            let numbered = || shape.is_exact.iter().enumerate();
            let exact_at = || numbered().filter(|(_, is_exact)| **is_exact);
            let values: Option<Vec<_>> = exact_at().map(|(at, _)| exact(at)).collect();
            let indices = shape.of_values.get(&*joined(values?.into_iter()))?;
            let fits = |index: &&usize| {
                let keys = &self.entries[**index].keys;
                let mut others = numbered().filter(|(_, is_exact)| !**is_exact);
                others.all(|(at, _)| fits(&keys[at].1, at))
            };
            indices.iter().find(fits).copied()
        };
        self.of_keys.get(keys)?.iter().filter_map(of_shape).min()
    }
}

/// Joins texts to one text. Different lists of texts never give the same text.
fn joined<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    let mut all = String::new();
    for text in texts {
        all.push_str(&text.len().to_string());
        all.push(':');
        all.push_str(text);
    }
    all
}
