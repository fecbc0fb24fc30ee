//! The algorithms under one name: which there are, and what each can do.

use crate::{
    CalendarWindow, Concurrency, Debt, FixedWindow, HoldId, LeakyBucket, Micros, Places, Receipt,
    SlidingWindowCounter, SlidingWindowLog, Stamps, TokenBucket, Verdict, WindowCount, WindowPair,
};

/// What an algorithm is: a check that decides, and a commit that writes, on a state of its own.
///
/// A fresh state (its `Default`) means that nothing is used. `cost` is at least 1 and at most [`Algorithm::capacity`].
pub trait Algorithm {
    /// What was used, per key.
    type State: Default;

    /// The most that can be admitted at once: what a client sees as the limit.
    fn capacity(&self) -> u64;

    /// Decides. Changes nothing that a later decision can see, except that a stamp further ahead of `now` than the
    /// key's period is moved to `now`: the clock stepped back, and nobody should be locked out until it catches up.
    fn check(&self, state: &mut Self::State, cost: u64, now: Micros) -> Verdict;

    /// Charges what [`Algorithm::check`] allowed at the same `now`, and brings the verdict's numbers up to date.
    fn commit(&self, state: &mut Self::State, cost: u64, now: Micros, verdict: &mut Verdict);

    /// As [`Algorithm::commit`], for the request with this ID. Only an algorithm that counts what requests hold needs it.
    fn commit_held(
        &self,
        state: &mut Self::State,
        cost: u64,
        _hold: HoldId,
        now: Micros,
        verdict: &mut Verdict,
    ) {
        self.commit(state, cost, now, verdict);
    }

    /// Charges a cost that is known afterwards, whether or not it fits: what is beyond the capacity counts too. Numbers
    /// that would not stay exact are cut to the largest that do.
    fn charge(&self, state: &mut Self::State, cost: u64, now: Micros);

    /// By how much more than the capacity is used; 0 if it is not.
    fn excess(&self, state: &Self::State, now: Micros) -> u64;

    /// Takes back what was charged, as far as it still counts, and never more: what another decision was allowed since
    /// then rests on it. `receipt` is the time of the commit and its verdict's `reset` together: when the charge, and
    /// all before it, would have stopped to count.
    fn give_back(&self, state: &mut Self::State, cost: u64, receipt: Micros, now: Micros);

    /// As [`Algorithm::give_back`], of what the request with the receipt's ID was charged.
    fn give_back_held(&self, state: &mut Self::State, cost: u64, receipt: Receipt, now: Micros) {
        self.give_back(state, cost, receipt.until, now);
    }

    /// The time from which the state is as good as a fresh one.
    fn expires(&self, state: &Self::State) -> Micros;

    /// The share that each of `parts` may give away so that together they give away no more than the whole; but each
    /// at least 1. `parts` is at least 1.
    #[must_use]
    fn divided(&self, parts: u64) -> Self
    where
        Self: Sized;
}

macro_rules! algorithms {
    ($($algorithm:ident($state:ty) = $name:literal),+ $(,)?) => {
        /// The numbers of a limit, with the algorithm that uses them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Quota {
            $(#[doc = concat!("`", $name, "`")] $algorithm($algorithm),)+
        }

        /// What was used under one key, as its algorithm keeps it.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum State {
            $(#[doc = concat!("`", $name, "`")] $algorithm($state),)+
        }

        impl Quota {
            /// Every algorithm's name, as written in YAML, as a key's kind and as a file of `lua/`.
            pub const ALGORITHMS: &[&str] = &[$($name),+];

            /// The algorithm's name.
            pub const fn algorithm(&self) -> &'static str {
                match self { $(Self::$algorithm(_) => $name,)+ }
            }

            /// The algorithm's place in [`Quota::ALGORITHMS`].
            pub const fn algorithm_index(&self) -> usize {
                #[derive(Clone, Copy)]
                enum Index { $($algorithm),+ }
                match self { $(Self::$algorithm(_) => Index::$algorithm as usize,)+ }
            }

            /// The most that can be admitted at once: what a client sees as the limit.
            pub fn capacity(&self) -> u64 {
                match self { $(Self::$algorithm(quota) => quota.capacity(),)+ }
            }

            /// The state of a key that nothing was charged to.
            pub fn fresh(&self) -> State {
                match self { $(Self::$algorithm(_) => State::$algorithm(Default::default()),)+ }
            }

            /// As [`Algorithm::check`].
            pub fn check(&self, state: &mut State, cost: u64, now: Micros) -> Verdict {
                match (self, state) {
                    $((Self::$algorithm(quota), State::$algorithm(state)) => quota.check(state, cost, now),)+
                    (quota, state) => { *state = quota.fresh(); quota.check(state, cost, now) }
                }
            }

            /// As [`Algorithm::commit`].
            pub fn commit(&self, state: &mut State, cost: u64, now: Micros, verdict: &mut Verdict) {
                self.commit_held(state, cost, HoldId::default(), now, verdict);
            }

            /// As [`Algorithm::commit_held`].
            pub fn commit_held(
                &self,
                state: &mut State,
                cost: u64,
                hold: HoldId,
                now: Micros,
                verdict: &mut Verdict,
            ) {
                match (self, state) {
                    $((Self::$algorithm(quota), State::$algorithm(state)) => quota.commit_held(state, cost, hold, now, verdict),)+
                    (quota, state) => { *state = quota.fresh(); quota.commit_held(state, cost, hold, now, verdict) }
                }
            }

            /// As [`Algorithm::charge`].
            pub fn charge(&self, state: &mut State, cost: u64, now: Micros) {
                match (self, state) {
                    $((Self::$algorithm(quota), State::$algorithm(state)) => quota.charge(state, cost, now),)+
                    (quota, state) => { *state = quota.fresh(); quota.charge(state, cost, now) }
                }
            }

            /// As [`Algorithm::excess`]; nothing is used of a state of another algorithm.
            pub fn excess(&self, state: &State, now: Micros) -> u64 {
                match (self, state) {
                    $((Self::$algorithm(quota), State::$algorithm(state)) => quota.excess(state, now),)+
                    _ => 0,
                }
            }

            /// As [`Algorithm::divided`].
            #[must_use]
            pub fn divided(&self, parts: u64) -> Self {
                match self { $(Self::$algorithm(quota) => Self::$algorithm(quota.divided(parts)),)+ }
            }

            /// As [`Algorithm::give_back`].
            pub fn give_back(&self, state: &mut State, cost: u64, receipt: Micros, now: Micros) {
                let hold = HoldId::default();
                self.give_back_held(state, cost, Receipt { until: receipt, hold }, now);
            }

            /// As [`Algorithm::give_back_held`].
            pub fn give_back_held(&self, state: &mut State, cost: u64, receipt: Receipt, now: Micros) {
                match (self, state) {
                    $((Self::$algorithm(quota), State::$algorithm(state)) => quota.give_back_held(state, cost, receipt, now),)+
                    // Nothing was charged to it.
                    (_, _) => {}
                }
            }

            /// As [`Algorithm::expires`]; a state of another algorithm is worth nothing at any time.
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

algorithms! {
    TokenBucket(Debt) = "token_bucket",
    LeakyBucket(Debt) = "leaky_bucket",
    FixedWindow(WindowCount) = "fixed_window",
    SlidingWindowLog(Stamps) = "sliding_window_log",
    SlidingWindowCounter(WindowPair) = "sliding_window_counter",
    CalendarWindow(WindowCount) = "calendar_window",
    Concurrency(Places) = "concurrency",
}

impl Quota {
    /// What a key of this quota is called beside its limit's name: the algorithm, and the window in us where there is
    /// one. Another algorithm or window is another key; every other number may change under a key that has state.
    pub fn kind(&self) -> String {
        match self {
            Self::TokenBucket(_) | Self::LeakyBucket(_) | Self::Concurrency(_) => {
                self.algorithm().to_owned()
            }
            Self::CalendarWindow(quota) => {
                format!("{}/{}", self.algorithm(), quota.calendar().name())
            }
            _ => format!("{}/{}", self.algorithm(), self.period()),
        }
    }

    /// The time from which a charge that was made at `at` counts no longer, however full the key was.
    pub fn counts_until(&self, at: Micros) -> Micros {
        match self {
            Self::TokenBucket(_)
            | Self::LeakyBucket(_)
            | Self::SlidingWindowLog(_)
            | Self::Concurrency(_) => at + self.period(),
            Self::FixedWindow(quota) => at - at % quota.window() + quota.window(),
            Self::SlidingWindowCounter(quota) => at - at % quota.window() + 2 * quota.window(),
            Self::CalendarWindow(quota) => quota.calendar().windows(at)[1],
        }
    }

    /// The window, or the time in which a full bucket is paid off, in us: so long does the whole capacity last for a client
    /// that uses it evenly.
    pub fn period(&self) -> Micros {
        match self {
            Self::TokenBucket(quota) => quota.meter().numbers()[3],
            Self::LeakyBucket(quota) => quota.meter().numbers()[3],
            Self::FixedWindow(quota) => quota.window(),
            Self::SlidingWindowLog(quota) => quota.window(),
            Self::SlidingWindowCounter(quota) => quota.window(),
            Self::CalendarWindow(quota) => quota.calendar().nominal(),
            Self::Concurrency(quota) => quota.lease(),
        }
    }
}
