//! The numbers of limits as users write them, and the quotas that they make.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tidegate_core::{
    Calendar, CalendarWindow, Concurrency, FixedWindow, LeakyBucket, Micros, Quota, Rate,
    SlidingWindowCounter, SlidingWindowLog, TokenBucket,
};

/// An algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    TokenBucket,
    LeakyBucket,
    FixedWindow,
    Calendar,
    Log,
    Counter,
    Concurrency,
}

impl Kind {
    /// The algorithms that a seed chooses from. Some fixed windows become windows of a calendar later.
    pub(crate) const ALL: [Self; 6] = [
        Self::TokenBucket,
        Self::LeakyBucket,
        Self::FixedWindow,
        Self::Log,
        Self::Counter,
        Self::Concurrency,
    ];

    /// Whether charges are paid off continuously.
    pub(crate) const fn is_bucket(self) -> bool {
        matches!(self, Self::TokenBucket | Self::LeakyBucket)
    }
}

/// The numbers of a quota. In a bucket, `refill` units are paid off in each `per` us. A plan or a reload has other numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) limit: u64,
    pub(crate) refill: u64,
    pub(crate) per: Micros,
}

impl Numbers {
    /// The quota of these numbers.
    pub(crate) fn quota(&self, kind: Kind, window: Micros) -> Quota {
        let rate = Rate {
            count: self.refill,
            per: self.per,
        };
        match kind {
            Kind::TokenBucket => TokenBucket::new(self.limit, rate).unwrap().into(),
            Kind::LeakyBucket => LeakyBucket::new(self.limit, rate).unwrap().into(),
            Kind::FixedWindow => FixedWindow::new(self.limit, window).unwrap().into(),
            Kind::Calendar => CalendarWindow::new(self.limit, even_calendar(window))
                .unwrap()
                .into(),
            Kind::Log => SlidingWindowLog::new(self.limit, window).unwrap().into(),
            Kind::Counter => SlidingWindowCounter::new(self.limit, window)
                .unwrap()
                .into(),
            Kind::Concurrency => Concurrency::new(self.limit, window).unwrap().into(),
        }
    }

    /// The share of each gateway, for this number of gateways.
    pub(crate) fn divided(&self, gateways: u64) -> Self {
        let gateways = gateways.max(1);
        Self {
            limit: (self.limit / gateways).max(1),
            refill: self.refill,
            per: self.per * gateways,
        }
    }

    /// The more generous of the two, for each number.
    pub(crate) fn most(self, other: Self) -> Self {
        let fastest = if self.is_slower(&other) { other } else { self };
        Self {
            limit: self.limit.max(other.limit),
            ..fastest
        }
    }

    /// Whether fewer units are paid off in the same time than by `other`.
    pub(crate) fn is_slower(&self, other: &Self) -> bool {
        let rate = |one: &Self, per: Micros| u128::from(one.refill) * u128::from(per);
        rate(self, other.per) < rate(other, self.per)
    }

    /// The units that are paid off in this time.
    pub(crate) fn paid(&self, time: Micros) -> f64 {
        self.refill as f64 * time as f64 / self.per as f64
    }
}

/// A calendar of windows with equal lengths. It covers the times of trials, with the system's clock and with a given clock.
fn even_calendar(window: Micros) -> &'static Calendar {
    static KNOWN: Mutex<BTreeMap<Micros, &'static Calendar>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap();
    known.entry(window).or_insert_with(|| {
        let first = crate::given::START / window;
        // Windows after the last start have the length of the last window.
        let starts: Vec<Micros> = (first - 100..=first).map(|nth| nth * window).collect();
        Box::leak(Box::new(
            Calendar::new(format!("even/{window}"), starts).unwrap(),
        ))
    })
}
