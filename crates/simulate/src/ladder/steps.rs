//! The used units of one key, at several quotas from small to large.
//!
//! Most keys stay far below all quotas. While the smallest quota admits every request of a key, the larger quotas admit these requests,
//! too: a larger quota has the same charges, and counts no charge for a longer time. So only the smallest quota decides. When the smallest
//! quota refuses a request, the states of the larger quotas are computed from the charges that the smallest quota admitted. A state without
//! a charge that still counts is as good as fresh. If all states of a key are as good as fresh, the smallest quota decides alone again.

use smallvec::SmallVec;
use tidegate_core::{Block, Budget, HoldId, KeyHolds, Micros, Quota, State, Verdict, decide};

/// Most charges that are kept for a key while only the smallest quota decides.
const MOST: usize = 16;

/// The quotas of one limit, from small to large.
pub(super) struct Steps {
    quotas: Vec<Quota>,
    block: Option<Block>,
    together: Together,
}

/// The relation of the larger quotas to the smallest quota, while the smallest quota admits every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Together {
    /// A larger quota may refuse a request that the smallest quota admits, so each quota decides for itself.
    No,
    /// All quotas admit every request, and have the same state.
    Same,
    /// All quotas admit every request, and each has a state of its own.
    Admitting,
}

/// The states of one key at the quotas.
pub(super) enum KeySteps {
    /// The smallest quota has admitted every request since its state was fresh.
    Calm {
        state: State,
        /// The charges, if the states of the quotas differ (`Together::Admitting`).
        charged: Charged,
    },
    /// Each quota has a state of its own, and decides for itself.
    Apart {
        states: Box<[State]>,
        /// The end of the key's block at each quota. Empty if the limit has no block.
        blocked: Box<[Micros]>,
        /// The holds of the key's requests at each quota. Empty if the quotas hold no units.
        holds: Box<[KeyHolds]>,
    },
}

/// The time and the units of each charge since the smallest quota's state was last as good as fresh. Most keys have one charge at a time.
type Charged = SmallVec<[(Micros, u64); 1]>;

impl Steps {
    /// Makes the steps of one limit. The quotas must be sorted by capacity.
    pub(super) fn new(quotas: Vec<Quota>, block: Option<Block>) -> Self {
        let grow = |pair: &[Quota]| {
            pair[0].capacity() <= pair[1].capacity() && pair[1].is_as_fast(&pair[0])
        };
        let together = if block.is_some() || quotas.iter().any(holds) {
            Together::No
        } else if !quotas.windows(2).all(grow) {
            // If a rate was rounded, a larger quota may pay off debt more slowly than a smaller quota.
            Together::No
        } else if quotas.iter().any(Quota::is_paced) {
            // A quota counts debt in parts of a unit, and the number of parts differs between quotas. So the same charges give different
            // states.
            Together::Admitting
        } else {
            Together::Same
        };
        Self {
            quotas,
            block,
            together,
        }
    }

    pub(super) fn quotas(&self) -> &[Quota] {
        &self.quotas
    }

    /// Returns a bit set that contains all quotas.
    pub(super) const fn all(&self) -> u64 {
        (1 << self.quotas.len()) - 1
    }

    /// Returns a key without charges.
    pub(super) fn fresh(&self) -> KeySteps {
        match (self.together, self.quotas.first()) {
            (Together::Same | Together::Admitting, Some(first)) => KeySteps::Calm {
                state: first.fresh(),
                charged: Charged::new(),
            },
            _ => {
                let blocked = self.block.map_or(0, |_| self.quotas.len());
                KeySteps::Apart {
                    states: self.quotas.iter().map(Quota::fresh).collect(),
                    blocked: vec![0; blocked].into(),
                    holds: self
                        .quotas
                        .iter()
                        .filter(|it| holds(it))
                        .map(|_| KeyHolds::default())
                        .collect(),
                }
            }
        }
    }

    /// Charges a key at each quota that admits the request. Returns the bit set of these quotas. `now` must not decrease from call to call.
    pub(super) fn ask(&self, key: &mut KeySteps, cost: u64, id: HoldId, now: Micros) -> u64 {
        if self.is_over(key, now) {
            *key = self.fresh();
        }
        if let KeySteps::Calm { state, charged } = key {
            if self.ask_first(state, charged, cost, now) {
                return self.all();
            }
            *key = self.apart(state, charged);
        }
        let KeySteps::Apart {
            states,
            blocked,
            holds,
        } = key
        else {
            return 0;
        };
        let mut admitted = 0;
        for (index, quota) in self.quotas.iter().enumerate() {
            let state = &mut states[index];
            let allowed = cost <= quota.capacity()
                && match (blocked.get_mut(index), holds.get_mut(index)) {
                    (None, None) => {
                        let mut verdict = quota.check(state, cost, now);
                        if verdict.allowed {
                            quota.commit(state, cost, now, &mut verdict);
                        }
                        verdict.allowed
                    }
                    (mut blocked, mut holds) => {
                        let own = std::mem::replace(state, quota.fresh());
                        let mut budgets = [Budget {
                            block: self.block,
                            blocked_until: blocked.as_deref().copied().unwrap_or(0),
                            hold: id,
                            holds: holds.as_deref_mut().map(std::mem::take).unwrap_or_default(),
                            ..Budget::new(quota, own, cost)
                        }];
                        let allowed = decide(&mut budgets, now, &mut [Verdict::default()]);
                        let [budget] = budgets;
                        if let Some(until) = &mut blocked {
                            **until = budget.blocked_until;
                        }
                        if let Some(held) = &mut holds {
                            **held = budget.holds;
                        }
                        *state = budget.state;
                        allowed
                    }
                };
            admitted |= u64::from(allowed) << index;
        }
        admitted
    }

    /// Whether all states of a key are as good as fresh, so that the smallest quota can decide alone again.
    fn is_over(&self, key: &KeySteps, now: Micros) -> bool {
        match key {
            KeySteps::Apart { states, .. } if self.together != Together::No => {
                let mut states = self.quotas.iter().zip(states);
                states.all(|(quota, state)| quota.expires(state) <= now)
            }
            _ => false,
        }
    }

    /// Charges the key at the smallest quota alone. Returns false, and charges no units, if each quota must decide for itself.
    fn ask_first(&self, state: &mut State, charged: &mut Charged, cost: u64, now: Micros) -> bool {
        let Some(first) = self.quotas.first().filter(|it| cost <= it.capacity()) else {
            return false;
        };
        let mut verdict = first.check(state, cost, now);
        if !verdict.allowed {
            return false;
        }
        if self.together == Together::Admitting {
            if verdict.reset == 0 {
                // The debt of the smallest quota is paid. The debts of the other quotas are paid off at least as fast, so no earlier charge
                // counts any more.
                charged.clear();
            }
            if charged.len() == MOST {
                return false;
            }
            charged.push((now, cost));
        }
        first.commit(state, cost, now, &mut verdict);
        true
    }

    /// Computes the states of all quotas, for a key that has only the state of the smallest quota.
    fn apart(&self, first: &State, charged: &[(Micros, u64)]) -> KeySteps {
        let others = self.quotas.iter().skip(1).map(|quota| match self.together {
            Together::Admitting => {
                let mut state = quota.fresh();
                for (at, cost) in charged {
                    quota.charge(&mut state, *cost, *at);
                }
                state
            }
            Together::Same | Together::No => first.clone(),
        });
        KeySteps::Apart {
            states: std::iter::once(first.clone()).chain(others).collect(),
            blocked: Box::default(),
            holds: Box::default(),
        }
    }

    /// Ends a request's hold at the quotas in the bit set `steps`.
    pub(super) fn end(&self, key: &mut KeySteps, steps: u64, hold: HoldId) {
        let KeySteps::Apart { holds, .. } = key else {
            return;
        };
        for (index, held) in holds.iter_mut().enumerate() {
            if steps & (1 << index) != 0 {
                held.end(hold);
            }
        }
    }

    /// Frees the memory of a key if its states are as good as fresh, its block is over and its holds have lapsed.
    pub(super) fn sweep(&self, key: &mut KeySteps, now: Micros) {
        let is_over = |quota: &Quota, state: &State| quota.expires(state) <= now;
        let mut quotas = self.quotas.iter();
        let is_over = match &*key {
            KeySteps::Calm { charged, .. } if !charged.spilled() => false,
            KeySteps::Calm { state, .. } => quotas.next().is_some_and(|it| is_over(it, state)),
            KeySteps::Apart {
                states,
                blocked,
                holds,
            } => {
                quotas
                    .zip(states)
                    .all(|(quota, state)| is_over(quota, state))
                    && blocked.iter().all(|until| *until <= now)
                    && holds.iter().all(|held| held.last() <= now)
            }
        };
        if is_over {
            *key = self.fresh();
        }
    }
}

/// Whether requests of a quota hold units.
fn holds(quota: &Quota) -> bool {
    quota.lease().is_some()
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use crate::tests::Random;
    use tidegate_core::{
        Calendar, CalendarWindow, Concurrency, FixedWindow, LeakyBucket, Rate,
        SlidingWindowCounter, SlidingWindowLog, TokenBucket,
    };

    const SECOND: Micros = 1_000_000;

    /// Windows of 40 to 79 seconds.
    static UNEVEN: LazyLock<Calendar> = LazyLock::new(|| {
        let lengths = (0..40_000).map(|nth| (40 + nth * 7 % 40) * SECOND);
        let starts = lengths.scan(1_794_000_000 * SECOND, |at, length| {
            *at += length;
            Some(*at)
        });
        Calendar::new("uneven", starts.collect::<Vec<_>>()).unwrap()
    });

    /// A quota of each algorithm.
    fn quotas(random: &mut Random) -> Vec<Quota> {
        let most = [4, 30, 5_000][random.below(3) as usize];
        let capacity = 1 + random.below(most);
        let window = (1 + random.below(20_000)) * 1_000;
        let rate = Rate {
            count: 1 + random.below(40),
            per: 1 + random.below(30 * SECOND),
        };
        vec![
            TokenBucket::new(capacity, rate).unwrap().into(),
            LeakyBucket::new(capacity, rate).unwrap().into(),
            FixedWindow::new(capacity, window).unwrap().into(),
            SlidingWindowLog::new(capacity, window).unwrap().into(),
            SlidingWindowCounter::new(capacity, window).unwrap().into(),
            CalendarWindow::new(capacity, &UNEVEN).unwrap().into(),
            Concurrency::new(capacity, 60 * SECOND).unwrap().into(),
        ]
    }

    /// The quotas with capacities around this quota's own, without capacities that the algorithm cannot have.
    fn around(quota: Quota) -> Vec<Quota> {
        let mut capacities = [1, 4, 8, 12, 16, 32, 64, 256].map(|it| quota.capacity() * it / 8);
        capacities.sort_unstable();
        let made = capacities.iter().map(|it| quota.with_capacity(*it));
        let mut made: Vec<Quota> = made.flatten().collect();
        made.dedup();
        made
    }

    #[test]
    fn each_quota_admits_what_it_would_admit_if_it_were_asked_alone() {
        let mut random = Random(11);
        let (mut calm, mut apart) = (0, 0);
        for _ in 0..400 {
            for quota in quotas(&mut random) {
                let steps = Steps::new(around(quota), None);
                let mut key = steps.fresh();
                let budget = |quota| Budget::new(quota, Quota::fresh(quota), 1);
                let mut alone: Vec<Budget<'_>> = steps.quotas().iter().map(budget).collect();
                let mut now = 1_795_000_000 * SECOND + random.below(SECOND);
                let most = [1_000, SECOND / 10, 5 * SECOND][random.below(3) as usize];
                let usual = 1 + random.below(most);
                for nth in 0..120 {
                    now += match random.below(40) {
                        0 => random.below(3) * quota.period(),
                        1..10 => 0,
                        _ => random.below(usual),
                    };
                    let cost = if random.below(3) == 0 {
                        1 + random.below(5)
                    } else {
                        1
                    };
                    let mut expected = 0;
                    for (index, budget) in alone.iter_mut().enumerate() {
                        if cost > budget.quota.capacity() {
                            continue;
                        }
                        (budget.cost, budget.hold) = (cost, HoldId(nth));
                        let budgets = std::slice::from_mut(budget);
                        let allowed = decide(budgets, now, &mut [Verdict::default()]);
                        expected |= u64::from(allowed) << index;
                    }
                    let admitted = steps.ask(&mut key, cost, HoldId(nth), now);
                    assert_eq!(admitted, expected, "{quota:?} at {nth}");
                    match key {
                        KeySteps::Calm { .. } => calm += 1,
                        KeySteps::Apart { .. } => apart += 1,
                    }
                }
            }
        }
        assert!(calm > 50_000 && apart > 50_000, "{calm} {apart}");
    }

    #[test]
    fn only_quotas_that_admit_all_that_smaller_ones_do_are_asked_together() {
        let together = |quotas: Vec<Quota>| Steps::new(quotas, None).together;
        let bucket = |capacity, count| -> Quota {
            let rate = Rate { count, per: SECOND };
            TokenBucket::new(capacity, rate).unwrap().into()
        };
        assert_eq!(
            together(vec![bucket(5, 1), bucket(10, 2)]),
            Together::Admitting
        );
        assert_eq!(together(vec![bucket(5, 2), bucket(10, 1)]), Together::No);
        let window = |limit| FixedWindow::new(limit, SECOND).unwrap().into();
        assert_eq!(together(vec![window(5), window(10)]), Together::Same);
        let places = |limit| Concurrency::new(limit, SECOND).unwrap().into();
        assert_eq!(together(vec![places(5), places(10)]), Together::No);
    }
}
