//! The trait of all algorithms.

use crate::{Calendar, Counter, Micros, Mode, Numbers, QuotaError, Verdict, WindowPair};

/// An algorithm of a limit: [`check`](Self::check) decides, and [`commit`](Self::commit) charges.
///
/// The `Default` of a state is the state of a key without used units. [`check`](Self::check) takes costs from 1 to [`Algorithm::capacity`].
pub trait Algorithm {
    /// The record of used units, per key.
    type State: Default;

    /// The modes in which gateways can share a limit of this algorithm.
    const MODES: &'static [Mode];

    /// Whether an admitted request waits for its turn.
    const IS_QUEUE: bool = false;

    /// Whether the quota is a share of the limit in front of it.
    const IS_SHARE: bool = false;

    /// Whether used units become free at a constant rate.
    const IS_PACED: bool = false;

    /// Whether used units become free bit by bit, and not all together at the end of a window.
    const IS_GRADUAL: bool = false;

    /// Returns the most units that can be admitted at once: the limit that a client sees.
    fn capacity(&self) -> u64;

    /// Decides whether a cost fits. The check changes the state only if the clock stepped back and a stamp is now more than a
    /// [period](Self::period) after `now`. The check moves such a stamp back, because otherwise the client would be refused until the clock
    /// reaches the stamp.
    fn check(&self, state: &mut Self::State, cost: u64, now: Micros) -> Verdict;

    /// Decides whether a cost fits, as [`check`](Self::check) does. `left` has the units that are left of the limit in front of this one.
    /// Only a [share](crate::FairShare) of that limit depends on it.
    fn check_within(
        &self,
        state: &mut Self::State,
        cost: u64,
        now: Micros,
        _left: Option<u64>,
    ) -> Verdict {
        self.check(state, cost, now)
    }

    /// Whether an admitted cost is charged, if these units are left of the limit in front of this one. Only a share charges no unit at times.
    fn counts_within(&self, _left: Option<u64>) -> bool {
        true
    }

    /// Charges a cost that [`Algorithm::check`] allowed at the same `now`, and updates the verdict's numbers.
    fn commit(&self, state: &mut Self::State, cost: u64, now: Micros, verdict: &mut Verdict) {
        self.charge(state, cost, now);
        verdict.remaining -= cost;
    }

    /// Charges a cost, whether or not it fits. Used units beyond the capacity count, too. Units beyond the largest sum that the algorithm
    /// can count exactly are dropped.
    fn charge(&self, state: &mut Self::State, cost: u64, now: Micros);

    /// Returns the used units beyond the capacity; 0 if there are none.
    fn excess(&self, state: &Self::State, now: Micros) -> u64;

    /// Returns the time in which `units` used units become free, in us. `None` if the units become free at a time that depends on when they
    /// were charged: [`counts_until`](Self::counts_until) returns the latest such time.
    fn time(&self, _units: u64) -> Option<Micros> {
        None
    }

    /// Returns the time from which the state equals a fresh one.
    fn expires(&self, state: &Self::State) -> Micros;

    /// Returns the quota's numbers as arguments of its script (lua/README.md). `now` is the time by Redis's clock.
    fn numbers(&self, now: Micros) -> Numbers;

    /// Returns the quota's period, in us: the length of the window, the lease of `concurrency`, or the time in which a full bucket is paid
    /// off. A client that sends requests evenly can use the whole capacity once per period.
    fn period(&self) -> Micros;

    /// Returns the time from which a charge that was made at `at` no longer counts, even if it filled the capacity.
    fn counts_until(&self, at: Micros) -> Micros {
        at + self.period()
    }

    /// Returns the numbers as users write them, such as `capacity 20, refill 10/s`.
    fn written(&self) -> String;

    /// Returns the window's name in keys. `None` if the algorithm has no window.
    fn window_name(&self) -> Option<String> {
        None
    }

    /// Returns the us after which a running request's hold lapses unless it is renewed. `None` if the algorithm charges requests at once.
    fn lease(&self) -> Option<Micros> {
        None
    }

    /// Returns the weight of a member whose share the quota is. `None` for every other algorithm.
    fn weight(&self) -> Option<u64> {
        None
    }

    /// Returns the used part of a member's share, from 0 to 1. `None` for every other algorithm, whose verdict shows the used part.
    fn used_share(&self, _state: &Self::State) -> Option<f64> {
        None
    }

    /// Returns the [level](crate::FairShare) of a member in units, if these units are left of the shared limit. `None` if any use is allowed,
    /// and for every other algorithm.
    fn share_level(&self, _left: u64) -> Option<f64> {
        None
    }

    /// Returns the calendar that defines the windows, if there is one. With a calendar, the [numbers](Self::numbers) depend on the time.
    fn calendar(&self) -> Option<&'static Calendar> {
        None
    }

    /// Returns the windows of an algorithm that counts in windows of equal length, so that gateways can add up their counts of a window.
    /// `None` for every other algorithm.
    fn counter(&self) -> Option<Counter> {
        None
    }

    /// Returns the state of a key with these counts, for an algorithm that counts units per window.
    fn counted(&self, _counts: WindowPair) -> Self::State {
        Self::State::default()
    }

    /// Returns the counts in force at `now`, for an algorithm that counts units per window. `previous` is 0 if the window before the
    /// current one does not count. `None` for every other algorithm.
    fn windows(&self, _state: &Self::State, _now: Micros) -> Option<WindowPair> {
        None
    }

    /// Returns a key's `reset` after another charge of `units`. The argument `reset` is the value before this charge.
    fn reset_with(&self, reset: Micros, _units: u64) -> Micros {
        reset
    }

    /// Returns the `retry_after` of a cost, computed from the refusal of a smaller cost. `None` if the refusal shows only that the result
    /// is between the refusal's `retry_after` and `reset`.
    fn wait_of(&self, cost: u64, smaller: &Verdict) -> Option<Micros> {
        let is_open = cost < self.capacity() && smaller.retry_after < smaller.reset;
        (!is_open).then_some(smaller.reset)
    }

    /// Returns the used units of a key whose debt exceeds the capacity, given the `reset` of its verdict. 0 for an algorithm whose `reset`
    /// does not show the used units.
    fn debt_of(&self, _reset: Micros) -> u64 {
        0
    }

    /// Returns the same algorithm with another capacity. The rate of a bucket changes in proportion. If users cannot write the new rate in
    /// a configuration, it is rounded down by less than one part in a thousand.
    ///
    /// # Errors
    ///
    /// The capacity is 0 or too large for exact numbers, or the rate becomes too slow.
    fn with_capacity(&self, capacity: u64) -> Result<Self, QuotaError>
    where
        Self: Sized;

    /// Whether a charge stops counting no later than under `other`, which is the same algorithm with another capacity.
    fn is_as_fast(&self, _other: &Self) -> bool {
        true
    }

    /// Divides the capacity by `parts`, which is at least 1. The result is rounded down, but to no less than 1 unit. The shares of all
    /// gateways together admit no more than the undivided limit, unless there are more parts than units.
    #[must_use]
    fn divided(&self, parts: u64) -> Self
    where
        Self: Copy,
    {
        let share = (self.capacity() / parts.max(1)).max(1);
        // This cannot fail, because `with_capacity` accepts every smaller capacity.
        self.with_capacity(share).unwrap_or(*self)
    }
}
