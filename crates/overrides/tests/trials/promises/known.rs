//! The changes that a gateway must have read.

use tidegate_core::Micros;

use crate::history::{Change, FOREVER, History, Look, Span};

/// The longest time between two looks at a gateway that runs.
const GAP: Micros = 200_000;

/// The looks at each gateway, and the first times at which a gateway had read a change.
pub(super) struct Known<'a> {
    history: &'a History,
    subject: usize,
    /// By gateway, in the order of time.
    looks: Vec<Vec<&'a Look>>,
}

impl<'a> Known<'a> {
    pub(super) fn of(history: &'a History, subject: usize) -> Self {
        let most = history.looks.iter().map(|look| look.gateway + 1).max();
        let mut looks = vec![Vec::new(); most.unwrap_or(0)];
        for look in &history.looks {
            looks[look.gateway].push(look);
        }
        for looks in &mut looks {
            looks.sort_by_key(|look| look.span.begin);
        }
        Self {
            history,
            subject,
            looks,
        }
    }

    pub(super) fn looks(&self) -> impl Iterator<Item = &'a Look> {
        self.looks.iter().flatten().copied()
    }

    /// Returns when Redis had last answered a gateway, as of that time.
    pub(super) fn heard(&self, gateway: usize, at: Micros) -> Micros {
        let looks = &self.looks[gateway];
        let until = looks.partition_point(|look| look.span.begin <= at);
        let last = looks[..until].last();
        last.map_or(0, |look| {
            let heard = look.heard.unwrap_or(FOREVER);
            look.span.begin.saturating_sub(heard)
        })
    }

    /// Returns when a gateway had read a change, at the latest: it has answered it, or has shown its override.
    pub(super) fn read_at(&self, gateway: usize, change: &Change) -> Option<Micros> {
        let is_own = change.gateway == gateway && change.is_made();
        let own = is_own.then_some(change.span.end);
        let looks = self.looks.get(gateway).into_iter().flatten();
        let mut shown = looks.filter(|look| {
            let entry = look.enforced[self.subject];
            entry.is_some_and(|entry| entry.change == change.id)
        });
        let shown = shown.next().map(|look| look.span.end);
        own.into_iter().chain(shown).min()
    }

    /// Whether a gateway must have read a change by that time, since it reaches Redis, and a gateway that has read it does.
    pub(super) fn must_be_read(&self, gateway: usize, change: &Change, at: Micros) -> bool {
        let reach = self.history.bounds.reach;
        if !self.reaches(gateway, at.saturating_sub(reach), at) {
            return false;
        }
        let (before, long_before) = (at.saturating_sub(reach), at.saturating_sub(2 * reach));
        let is_kept = !self.history.losses.iter().any(|loss| {
            loss.meets(&Span {
                begin: change.span.begin,
                end: at,
            })
        });
        let mut gateways = 0..self.looks.len();
        gateways.any(|other| {
            let Some(read) = self.read_at(other, change) else {
                return false;
            };
            let gives_back = || read <= long_before && self.reaches(other, long_before, at);
            is_kept && read <= before || gives_back()
        })
    }

    /// Whether a gateway ran without trouble, and Redis answered it, from then until then.
    fn reaches(&self, gateway: usize, begin: Micros, end: Micros) -> bool {
        if self.history.is_troubled(gateway, Span { begin, end }) {
            return false;
        }
        let Some(looks) = self.looks.get(gateway) else {
            return false;
        };
        // The last look before the span, too.
        let first = looks.partition_point(|look| look.span.begin <= begin);
        let Some(mut before) = first.checked_sub(1).map(|last| looks[last].span.end) else {
            return false;
        };
        for look in &looks[first..] {
            if look.span.begin > end {
                break;
            }
            let heard = look
                .heard
                .is_some_and(|heard| heard < self.history.bounds.heard);
            if !heard || look.span.begin > before + GAP {
                return false;
            }
            before = look.span.end;
        }
        before + GAP >= end
    }
}
