//! The trait of all algorithms.

use crate::{Calendar, Counter, Micros, Mode, Numbers, QuotaError, Verdict, WindowPair};

/// An algorithm: a check that decides, and a commit that writes, on a state of its own.
///
/// In a fresh state (its `Default`) no unit is used. `cost` is at least 1 and at most [`Algorithm::capacity`].
pub trait Algorithm {
    /// The record of used units, per key.
    type State: Default;

    /// The modes in which gateways can share a limit.
    const MODES: &'static [Mode];

    /// Whether an admitted request waits for its turn.
    const IS_QUEUE: bool = false;

    /// Whether capacity comes back at an even rate.
    const IS_PACED: bool = false;

    /// Whether capacity comes back bit by bit, and not all of it at the end of a window.
    const IS_GRADUAL: bool = false;

    /// Returns the most units that can be admitted at once: the limit that a client sees.
    fn capacity(&self) -> u64;

    /// Decides. No later decision can see a change, with one exception. If a stamp is further ahead of `now` than the key's period,
    /// the clock stepped back. The stamp is then moved to `now`, so that no client is locked out until the clock catches up.
    fn check(&self, state: &mut Self::State, cost: u64, now: Micros) -> Verdict;

    /// Charges a cost that [`Algorithm::check`] allowed at the same `now`, and updates the verdict's numbers.
    fn commit(&self, state: &mut Self::State, cost: u64, now: Micros, verdict: &mut Verdict) {
        self.charge(state, cost, now);
        verdict.remaining -= cost;
    }

    /// Charges a cost, whether or not it fits: units beyond the capacity count, too. Numbers too large to be exact are cut to the
    /// largest exact number.
    fn charge(&self, state: &mut Self::State, cost: u64, now: Micros);

    /// Returns the used units beyond the capacity; 0 if there are none.
    fn excess(&self, state: &Self::State, now: Micros) -> u64;

    /// Returns the time in which these units leave, in us, if units leave one after the other. None if they leave together, at
    /// [`counts_until`](Self::counts_until).
    fn time(&self, _units: u64) -> Option<Micros> {
        None
    }

    /// Returns the time from which the state equals a fresh one.
    fn expires(&self, state: &Self::State) -> Micros;

    /// Returns the arguments of the scripts, at `now` on their clock (lua/README.md).
    fn numbers(&self, now: Micros) -> Numbers;

    /// Returns the window, or the time in which a full bucket is paid off, in us. A client that uses the limit evenly uses the whole
    /// capacity in this time.
    fn period(&self) -> Micros;

    /// Returns the time from which a charge that was made at `at` counts no longer, however full the key was.
    fn counts_until(&self, at: Micros) -> Micros {
        at + self.period()
    }

    /// Returns the numbers as users write them, such as `capacity 20, refill 10/s`.
    fn written(&self) -> String;

    /// Returns the window as a part of keys, if the algorithm has a window.
    fn window_name(&self) -> Option<String> {
        None
    }

    /// Returns the us after which a running request's hold lapses unless it is renewed. None if a request is charged.
    fn lease(&self) -> Option<Micros> {
        None
    }

    /// Returns the calendar of its windows, if it has one. Then its [numbers](Self::numbers) depend on the time.
    fn calendar(&self) -> Option<&'static Calendar> {
        None
    }

    /// Returns its windows, if they all have one length, so that counts of several gateways can be added up.
    fn counter(&self) -> Option<Counter> {
        None
    }

    /// Returns the state of a key with these counts, for an algorithm that has a [`counter`](Self::counter).
    fn counted(&self, _counts: WindowPair) -> Self::State {
        Self::State::default()
    }

    /// Returns the us until no unit counts any longer, if `units` are charged later. `reset` is this time without them.
    fn reset_with(&self, reset: Micros, _units: u64) -> Micros {
        reset
    }

    /// Returns the wait of a cost, given the refusal of a smaller one. None if the refusal leaves it open. Then the wait is between
    /// the refusal's `retry_after` and its `reset`.
    fn wait_of(&self, cost: u64, smaller: &Verdict) -> Option<Micros> {
        let is_open = cost < self.capacity() && smaller.retry_after < smaller.reset;
        (!is_open).then_some(smaller.reset)
    }

    /// Returns the used units of a key whose verdict has this `reset`, if it shows a debt beyond the capacity; else 0.
    fn debt_of(&self, _reset: Micros) -> u64 {
        0
    }

    /// Returns the same algorithm with another capacity. A pace changes in proportion. If no configuration can contain the new pace,
    /// it is rounded down by less than one part in a thousand.
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

    /// Returns the share that each of `parts` may admit, so that together they admit no more than the whole. A share is at least 1,
    /// and so is `parts`.
    #[must_use]
    fn divided(&self, parts: u64) -> Self
    where
        Self: Copy,
    {
        let share = (self.capacity() / parts.max(1)).max(1);
        // A smaller capacity always fits.
        self.with_capacity(share).unwrap_or(*self)
    }
}
