//! One type for the quotas of all algorithms, and one for their states.
//!
//! [`algorithms!`](crate::algorithms) lists the algorithms, one row each. No code outside this file matches on [`Quota`]: the code of an
//! algorithm is in its own file.

use crate::{
    Algorithm, Calendar, Counter, Debt, Micros, Mode, Numbers, QuotaError, Rate, Stamps, Verdict,
    WindowCount, WindowPair,
};

macro_rules! quota {
    ($($name:ident: $algorithm:ident($state:ty) needs $needs:tt,)+) => {
        $(pub use crate::$name::$algorithm;)+

        /// The numbers of a limit, with the algorithm that uses them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Quota {
            $(#[doc = concat!("`", stringify!($name), "`")] $algorithm($algorithm),)+
        }

        /// The record of used units under one key, in the form of its algorithm.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum State {
            $(#[doc = concat!("`", stringify!($name), "`")] $algorithm($state),)+
        }

        impl Quota {
            /// The names of all algorithms, in YAML, in keys and as names of files in `lua/`.
            pub const ALGORITHMS: &[&str] = &[$(stringify!($name)),+];

            /// Returns the algorithm's name.
            pub const fn algorithm(&self) -> &'static str {
                match self { $(Self::$algorithm(_) => stringify!($name),)+ }
            }

            /// Returns the algorithm's index in [`Quota::ALGORITHMS`].
            pub const fn algorithm_index(&self) -> usize {
                #[derive(Clone, Copy)]
                enum Index { $($algorithm),+ }
                match self { $(Self::$algorithm(_) => Index::$algorithm as usize,)+ }
            }

            /// Returns the most units that can be admitted at once: the limit that a client sees.
            pub fn capacity(&self) -> u64 {
                match self { $(Self::$algorithm(quota) => quota.capacity(),)+ }
            }

            /// See [`Algorithm::MODES`].
            pub const fn modes(&self) -> &'static [Mode] {
                match self { $(Self::$algorithm(_) => $algorithm::MODES,)+ }
            }

            /// See [`Algorithm::IS_QUEUE`].
            pub const fn is_queue(&self) -> bool {
                match self { $(Self::$algorithm(_) => $algorithm::IS_QUEUE,)+ }
            }

            /// See [`Algorithm::IS_SHARE`].
            pub const fn is_share(&self) -> bool {
                match self { $(Self::$algorithm(_) => $algorithm::IS_SHARE,)+ }
            }

            /// See [`Algorithm::IS_PACED`].
            pub const fn is_paced(&self) -> bool {
                match self { $(Self::$algorithm(_) => $algorithm::IS_PACED,)+ }
            }

            /// See [`Algorithm::IS_GRADUAL`].
            pub const fn is_gradual(&self) -> bool {
                match self { $(Self::$algorithm(_) => $algorithm::IS_GRADUAL,)+ }
            }

            /// See [`Algorithm::numbers`].
            pub fn numbers(&self, now: Micros) -> Numbers {
                match self { $(Self::$algorithm(quota) => quota.numbers(now),)+ }
            }

            /// See [`Algorithm::period`].
            pub fn period(&self) -> Micros {
                match self { $(Self::$algorithm(quota) => Algorithm::period(quota),)+ }
            }

            /// See [`Algorithm::time`].
            fn time(&self, units: u64) -> Option<Micros> {
                match self { $(Self::$algorithm(quota) => quota.time(units),)+ }
            }

            /// See [`Algorithm::counts_until`].
            pub fn counts_until(&self, at: Micros) -> Micros {
                match self { $(Self::$algorithm(quota) => quota.counts_until(at),)+ }
            }

            /// See [`Algorithm::is_as_fast`]. False for quotas of different algorithms.
            pub fn is_as_fast(&self, other: &Self) -> bool {
                match (self, other) {
                    $((Self::$algorithm(quota), Self::$algorithm(other)) => quota.is_as_fast(other),)+
                    _ => false,
                }
            }

            /// See [`Algorithm::lease`].
            pub fn lease(&self) -> Option<Micros> {
                match self { $(Self::$algorithm(quota) => Algorithm::lease(quota),)+ }
            }

            /// See [`Algorithm::weight`].
            pub fn weight(&self) -> Option<u64> {
                match self { $(Self::$algorithm(quota) => Algorithm::weight(quota),)+ }
            }

            /// See [`Algorithm::share_level`].
            pub fn share_level(&self, left: u64) -> Option<f64> {
                match self { $(Self::$algorithm(quota) => quota.share_level(left),)+ }
            }

            /// See [`Algorithm::used_share`]. `None` for a state of another algorithm.
            pub fn used_share(&self, state: &State) -> Option<f64> {
                match (self, state) {
                    $((Self::$algorithm(quota), State::$algorithm(state)) => quota.used_share(state),)+
                    _ => None,
                }
            }

            /// See [`Algorithm::calendar`].
            pub fn calendar(&self) -> Option<&'static Calendar> {
                match self { $(Self::$algorithm(quota) => Algorithm::calendar(quota),)+ }
            }

            /// See [`Algorithm::counter`].
            pub fn counter(&self) -> Option<Counter> {
                match self { $(Self::$algorithm(quota) => quota.counter(),)+ }
            }

            /// See [`Algorithm::counted`].
            pub fn counted(&self, counts: WindowPair) -> State {
                match self { $(Self::$algorithm(quota) => State::$algorithm(quota.counted(counts)),)+ }
            }

            /// See [`Algorithm::windows`]. `None` for a state of another algorithm.
            pub fn windows(&self, state: &State, now: Micros) -> Option<WindowPair> {
                match (self, state) {
                    $((Self::$algorithm(quota), State::$algorithm(state)) => quota.windows(state, now),)+
                    _ => None,
                }
            }

            /// See [`Algorithm::reset_with`].
            pub fn reset_with(&self, reset: Micros, units: u64) -> Micros {
                match self { $(Self::$algorithm(quota) => quota.reset_with(reset, units),)+ }
            }

            /// See [`Algorithm::wait_of`].
            pub fn wait_of(&self, cost: u64, smaller: &Verdict) -> Option<Micros> {
                match self { $(Self::$algorithm(quota) => quota.wait_of(cost, smaller),)+ }
            }

            /// See [`Algorithm::debt_of`].
            pub fn debt_of(&self, reset: Micros) -> u64 {
                match self { $(Self::$algorithm(quota) => quota.debt_of(reset),)+ }
            }

            /// See [`Algorithm::written`].
            pub fn written(&self) -> String {
                match self { $(Self::$algorithm(quota) => quota.written(),)+ }
            }

            fn window_name(&self) -> Option<String> {
                match self { $(Self::$algorithm(quota) => quota.window_name(),)+ }
            }

            /// Returns the state of a key without charges.
            pub fn fresh(&self) -> State {
                match self { $(Self::$algorithm(_) => State::$algorithm(Default::default()),)+ }
            }

            /// See [`Algorithm::check`].
            pub fn check(&self, state: &mut State, cost: u64, now: Micros) -> Verdict {
                match (self, state) {
                    $((Self::$algorithm(quota), State::$algorithm(state)) => quota.check(state, cost, now),)+
                    (quota, state) => { *state = quota.fresh(); quota.check(state, cost, now) }
                }
            }

            /// See [`Algorithm::check_within`].
            pub fn check_within(&self, state: &mut State, cost: u64, now: Micros, left: Option<u64>) -> Verdict {
                match (self, state) {
                    $((Self::$algorithm(quota), State::$algorithm(state)) => quota.check_within(state, cost, now, left),)+
                    (quota, state) => { *state = quota.fresh(); quota.check_within(state, cost, now, left) }
                }
            }

            /// See [`Algorithm::counts_within`].
            pub fn counts_within(&self, left: Option<u64>) -> bool {
                match self { $(Self::$algorithm(quota) => quota.counts_within(left),)+ }
            }

            /// See [`Algorithm::commit`].
            pub fn commit(&self, state: &mut State, cost: u64, now: Micros, verdict: &mut Verdict) {
                match (self, state) {
                    $((Self::$algorithm(quota), State::$algorithm(state)) => quota.commit(state, cost, now, verdict),)+
                    (quota, state) => { *state = quota.fresh(); quota.commit(state, cost, now, verdict) }
                }
            }

            /// See [`Algorithm::charge`].
            pub fn charge(&self, state: &mut State, cost: u64, now: Micros) {
                match (self, state) {
                    $((Self::$algorithm(quota), State::$algorithm(state)) => quota.charge(state, cost, now),)+
                    (quota, state) => { *state = quota.fresh(); quota.charge(state, cost, now) }
                }
            }

            /// See [`Algorithm::excess`]. 0 for a state of another algorithm.
            pub fn excess(&self, state: &State, now: Micros) -> u64 {
                match (self, state) {
                    $((Self::$algorithm(quota), State::$algorithm(state)) => quota.excess(state, now),)+
                    _ => 0,
                }
            }

            /// See [`Algorithm::divided`].
            #[must_use]
            pub fn divided(&self, parts: u64) -> Self {
                match self { $(Self::$algorithm(quota) => Self::$algorithm(quota.divided(parts)),)+ }
            }

            /// See [`Algorithm::with_capacity`].
            ///
            /// # Errors
            ///
            /// The capacity is 0, or too large for exact numbers.
            pub fn with_capacity(&self, capacity: u64) -> Result<Self, QuotaError> {
                Ok(match self { $(Self::$algorithm(quota) => Self::$algorithm(quota.with_capacity(capacity)?),)+ })
            }

            /// See [`Algorithm::expires`]. 0 for a state of another algorithm.
            pub fn expires(&self, state: &State) -> Micros {
                match (self, state) {
                    $((Self::$algorithm(quota), State::$algorithm(state)) => quota.expires(state),)+
                    _ => 0,
                }
            }
        }

        $(impl From<$algorithm> for Quota {
            fn from(quota: $algorithm) -> Self { Self::$algorithm(quota) }
        })+
    };
}

/// Calls the macro `$to` with one row for each algorithm. A row has the name of the algorithm and of its module, its type, and the type of
/// its state. The row ends with the files of `lua/` that the algorithm's script needs in addition to `<name>.lua`.
#[macro_export]
macro_rules! algorithms {
    ($to:ident) => {
        $to! {
            token_bucket: TokenBucket(Debt) needs ["debt"],
            leaky_bucket: LeakyBucket(Debt) needs ["debt"],
            fixed_window: FixedWindow(WindowCount) needs ["window"],
            sliding_window_log: SlidingWindowLog(Stamps) needs [],
            sliding_window_counter: SlidingWindowCounter(WindowPair) needs ["window_pair"],
            calendar_window: CalendarWindow(WindowCount) needs ["window"],
            concurrency: Concurrency(()) needs [],
            fair_share: FairShare(WindowPair) needs ["window_pair"],
        }
    };
}

algorithms!(quota);

impl Quota {
    /// Returns the part of a key that follows the limit's name: the algorithm, and the window if there is one. If a reload changes the
    /// algorithm or the window, the limit has new keys. If it changes only other numbers, such as the capacity, the limit keeps its keys
    /// and their state.
    pub fn kind(&self) -> String {
        match self.window_name() {
            None => self.algorithm().to_owned(),
            Some(window) => format!("{}/{window}", self.algorithm()),
        }
    }

    /// Returns the `reset` or `retry_after` of a verdict, in us, as if `units` more were charged at `now`. `wait` is the verdict's value
    /// before this charge. Units above the capacity do not lengthen the wait.
    pub(crate) fn later(&self, wait: Micros, units: u64, now: Micros) -> Micros {
        match self.time(units.min(self.capacity())) {
            Some(time) => wait + time,
            None => wait.max(self.counts_until(now) - now),
        }
    }

    /// Whether clients receive the `reset` of a verdict. Limits of `concurrency` have no `reset`, because held units may become free at any
    /// moment.
    pub fn has_reset(&self) -> bool {
        self.lease().is_none()
    }

    /// Returns a quota of the same algorithm whose state expires within a second. Probes charge this quota to check whether Redis can
    /// decide requests. For a calendar window this call returns a fixed window, because calendar windows are longer than a second.
    ///
    /// # Errors
    ///
    /// This call never fails, because its numbers are constants within all bounds.
    pub fn brief(&self) -> Result<Self, QuotaError> {
        const UNITS: u64 = 1_000;
        const SPAN: Micros = 10_000;
        let rate = Rate {
            count: UNITS,
            per: SPAN,
        };
        Ok(match self {
            Self::TokenBucket(_) => TokenBucket::new(UNITS, rate)?.into(),
            Self::LeakyBucket(_) => LeakyBucket::new(UNITS, rate)?.into(),
            Self::FixedWindow(_) | Self::CalendarWindow(_) => FixedWindow::new(UNITS, SPAN)?.into(),
            Self::SlidingWindowLog(_) => SlidingWindowLog::new(UNITS, SPAN)?.into(),
            Self::SlidingWindowCounter(_) => SlidingWindowCounter::new(UNITS, SPAN)?.into(),
            Self::Concurrency(_) => Concurrency::new(UNITS, 100 * SPAN)?.into(),
            Self::FairShare(_) => FairShare::of(&TokenBucket::new(UNITS, rate)?.into(), 1)?.into(),
        })
    }
}
