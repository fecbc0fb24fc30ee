//! The results of a limit over time. The number of spans is bounded, so a longer log has longer spans.

use serde::Serialize;
use tidegate_core::Micros;

/// Most spans of a series. If a series needs more, each pair of spans becomes one span of twice the length.
const MAX_SPANS: usize = 720;

const SECOND: Micros = 1_000_000;

/// The results of a limit over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    /// The length of a span, in us.
    width: Micros,
    /// Number of spans from the epoch to the first span.
    first: Micros,
    spans: Vec<Span>,
}

/// The requests of one span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Span {
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
    /// The highest used part of the quota over all keys, in per mille.
    pub(crate) used: u16,
}

impl Series {
    /// Adds the result of one request.
    pub(crate) fn add(&mut self, at: Micros, one: Span) {
        if self.spans.is_empty() {
            (self.width, self.first) = (SECOND, at / SECOND);
        }
        loop {
            let index = (at / self.width).saturating_sub(self.first) as usize;
            if index < MAX_SPANS {
                if self.spans.len() <= index {
                    self.spans.resize(index + 1, Span::default());
                }
                self.spans[index].take(one);
                return;
            }
            self.coarsen();
        }
    }

    /// Joins each pair of spans to one span of twice the length.
    fn coarsen(&mut self) {
        let mut coarse: Vec<Span> = Vec::with_capacity(MAX_SPANS);
        let first = self.first / 2;
        for (index, span) in self.spans.iter().enumerate() {
            let at = ((self.first + index as u64) / 2 - first) as usize;
            if coarse.len() <= at {
                coarse.resize(at + 1, Span::default());
            }
            coarse[at].take(*span);
        }
        (self.width, self.first, self.spans) = (self.width * 2, first, coarse);
    }

    /// Returns the start of the first span, in us since the epoch, and the length of a span.
    pub(crate) const fn place(&self) -> (Micros, Micros) {
        (self.first * self.width, self.width)
    }

    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans
    }
}

impl Span {
    /// Adds another span to this one.
    pub(crate) fn take(&mut self, other: Self) {
        self.admitted += other.admitted;
        self.refused += other.refused;
        self.used = self.used.max(other.used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_get_longer_and_lose_nothing() {
        let mut series = Series::default();
        let start = 1_700_000_001 * SECOND;
        for minute in 0..10_000 {
            let one = Span {
                admitted: 1,
                refused: minute % 2,
                used: minute as u16,
            };
            series.add(start + minute * 60 * SECOND, one);
        }
        assert!(series.spans().len() <= MAX_SPANS);
        let sum = |of: fn(&Span) -> u64| series.spans().iter().map(of).sum::<u64>();
        assert_eq!(sum(|span| span.admitted), 10_000);
        assert_eq!(sum(|span| span.refused), 5_000);
        assert_eq!(series.spans().last().unwrap().used, 9_999);
        let (first, width) = series.place();
        assert!(first <= start && start < first + width, "{first} {width}");
    }
}
