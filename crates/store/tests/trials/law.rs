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
    /// Those that are made up first: some windows are made those of a calendar then.
    pub(crate) const ALL: [Self; 6] = [
        Self::TokenBucket,
        Self::LeakyBucket,
        Self::FixedWindow,
        Self::Log,
        Self::Counter,
        Self::Concurrency,
    ];

    /// Whether it is paid off continuously.
    pub(crate) const fn is_bucket(self) -> bool {
        matches!(self, Self::TokenBucket | Self::LeakyBucket)
    }
}

/// How many, and for a bucket what is paid off: `refill` in each `per` us. A plan, or a reload, changes these.
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

    /// The share of one of so many gateways.
    pub(crate) fn divided(&self, gateways: u64) -> Self {
        let gateways = gateways.max(1);
        Self {
            limit: (self.limit / gateways).max(1),
            refill: self.refill,
            per: self.per * gateways,
        }
    }

    /// What leaves most room of both, number by number.
    pub(crate) fn most(self, other: Self) -> Self {
        let fastest = if self.is_slower(&other) { other } else { self };
        Self {
            limit: self.limit.max(other.limit),
            ..fastest
        }
    }

    /// Whether less is paid off in the same time.
    pub(crate) fn is_slower(&self, other: &Self) -> bool {
        let rate = |one: &Self, per: Micros| u128::from(one.refill) * u128::from(per);
        rate(self, other.per) < rate(other, self.per)
    }

    /// How much is paid off in so long, in units.
    pub(crate) fn paid(&self, time: Micros) -> f64 {
        self.refill as f64 * time as f64 / self.per as f64
    }
}

/// A calendar whose windows are all as long: those of the trials are in it, and those of a given clock.
fn even_calendar(window: Micros) -> &'static Calendar {
    static KNOWN: Mutex<BTreeMap<Micros, &'static Calendar>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap();
    known.entry(window).or_insert_with(|| {
        let first = crate::given::START / window;
        // Windows beyond the last start are as long.
        let starts: Vec<Micros> = (first - 100..=first).map(|nth| nth * window).collect();
        Box::leak(Box::new(
            Calendar::new(format!("even/{window}"), starts).unwrap(),
        ))
    })
}
