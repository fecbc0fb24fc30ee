//! What every algorithm can do, and what is to be known of it.

use crate::{Calendar, Counter, Micros, Mode, Numbers, QuotaError, Verdict, WindowPair};

/// What an algorithm is: a check that decides, and a commit that writes, on a state of its own.
///
/// A fresh state (its `Default`) means that nothing is used. `cost` is at least 1 and at most [`Algorithm::capacity`].
pub trait Algorithm {
    /// What was used, per key.
    type State: Default;

    /// How gateways can share a limit.
    const MODES: &'static [Mode];

    /// Whether an admitted request waits for its turn.
    const IS_QUEUE: bool = false;

    /// Whether capacity comes back at an even rate.
    const IS_PACED: bool = false;

    /// Whether capacity comes back bit by bit, and not all of it at the end of a window.
    const IS_GRADUAL: bool = false;

    /// The most that can be admitted at once: what a client sees as the limit.
    fn capacity(&self) -> u64;

    /// Decides. Changes nothing that a later decision can see, with one exception. If a stamp is further ahead of `now` than the
    /// key's period, the clock stepped back. The stamp is then moved to `now`, so that nobody is locked out until the clock catches
    /// up.
    fn check(&self, state: &mut Self::State, cost: u64, now: Micros) -> Verdict;

    /// Charges what [`Algorithm::check`] allowed at the same `now`, and brings the verdict's numbers up to date.
    fn commit(&self, state: &mut Self::State, cost: u64, now: Micros, verdict: &mut Verdict) {
        self.charge(state, cost, now);
        verdict.remaining -= cost;
    }

    /// Charges a cost that is known afterwards, whether or not it fits: what is beyond the capacity counts too. Numbers
    /// that would not stay exact are cut to the largest that do.
    fn charge(&self, state: &mut Self::State, cost: u64, now: Micros);

    /// By how much more than the capacity is used; 0 if it is not.
    fn excess(&self, state: &Self::State, now: Micros) -> u64;

    /// Returns the time in which these units leave, in us, if units leave one after the other. None if they leave together, at
    /// [`counts_until`](Self::counts_until).
    fn time(&self, _units: u64) -> Option<Micros> {
        None
    }

    /// The time from which the state is as good as a fresh one.
    fn expires(&self, state: &Self::State) -> Micros;

    /// What the scripts take, at `now` on their clock (lua/README.md).
    fn numbers(&self, now: Micros) -> Numbers;

    /// The window, or the time in which a full bucket is paid off, in us. A client that uses the limit evenly uses the whole
    /// capacity in this time.
    fn period(&self) -> Micros;

    /// The time from which a charge that was made at `at` counts no longer, however full the key was.
    fn counts_until(&self, at: Micros) -> Micros {
        at + self.period()
    }

    /// The numbers as users write them, such as `capacity 20, refill 10/s`.
    fn written(&self) -> String;

    /// The window, as a part of keys, where there is one.
    fn window_name(&self) -> Option<String> {
        None
    }

    /// The time after which a running request's hold lapses unless it is renewed, in us. None if a request is charged.
    fn lease(&self) -> Option<Micros> {
        None
    }

    /// Its windows, if they are those of a calendar. Then its [numbers](Self::numbers) depend on the time.
    fn calendar(&self) -> Option<&'static Calendar> {
        None
    }

    /// Its windows, if it counts by windows of one length, so that counts of several gateways can be added up.
    fn counter(&self) -> Option<Counter> {
        None
    }

    /// The state of a key with these counts, of an algorithm that has a [`counter`](Self::counter).
    fn counted(&self, _counts: WindowPair) -> Self::State {
        Self::State::default()
    }

    /// The time until nothing counts any more, in us, if it is `reset` now and so many units are charged later.
    fn reset_with(&self, reset: Micros, _units: u64) -> Micros {
        reset
    }

    /// Returns the wait of a cost, given the refusal of a smaller one. None if the refusal leaves it open. Then the wait is between
    /// the refusal's `retry_after` and its `reset`.
    fn wait_of(&self, cost: u64, smaller: &Verdict) -> Option<Micros> {
        let is_open = cost < self.capacity() && smaller.retry_after < smaller.reset;
        (!is_open).then_some(smaller.reset)
    }

    /// How much is used of a key whose verdict has this `reset`, where that tells of a debt beyond the capacity; else 0.
    fn debt_of(&self, _reset: Micros) -> u64 {
        0
    }

    /// The same with another capacity; a pace changes in proportion. Where a configuration cannot say it, it is rounded down by less
    /// than one part in a thousand.
    ///
    /// # Errors
    ///
    /// The capacity is 0, or too large for exact numbers, or the pace too slow.
    fn with_capacity(&self, capacity: u64) -> Result<Self, QuotaError>
    where
        Self: Sized;

    /// Whether a charge counts no longer than under `other`, which is the same with another capacity.
    fn is_as_fast(&self, _other: &Self) -> bool {
        true
    }

    /// The share that each of `parts` may give away so that together they give away no more than the whole; but each
    /// at least 1. `parts` is at least 1.
    #[must_use]
    fn divided(&self, parts: u64) -> Self
    where
        Self: Copy,
    {
        let share = (self.capacity() / parts.max(1)).max(1);
        // Whatever fits, less fits too.
        self.with_capacity(share).unwrap_or(*self)
    }
}
