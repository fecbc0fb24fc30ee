//! `concurrency`: never more at a time than the limit, however places are given back, renewed or left to lapse.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{Concurrency, Micros, Quota, State};

use crate::traffic::{SECOND, cases, request, start};

/// What a request does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Begin(u64),
    End,
    Renew,
    /// Time passes, in parts of a lease per mille.
    Wait(u64),
}

/// A request under way, as its gateway knows it.
#[derive(Clone, Copy, Debug)]
struct Place {
    cost: u64,
    lapse: Micros,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..4_u64).prop_map(Step::Begin),
        3 => Just(Step::End),
        2 => Just(Step::Renew),
        2 => (0..1_500_u64).prop_map(Step::Wait),
    ];
    vec(step, 1..120)
}

fn places(state: &mut State) -> &mut tidegate_core::Places {
    match state {
        State::Concurrency(places) => places,
        other => panic!("{other:?} has no places"),
    }
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn never_more_at_a_time_than_the_limit(
        limit in 1..12_u64, lease in 1..100 * SECOND, now in start(), steps in steps(), seed in any::<u32>(),
    ) {
        let quota = Quota::from(Concurrency::new(limit, lease).unwrap());
        let (mut state, mut now, mut seed) = (quota.fresh(), now, seed);
        let mut under_way: Vec<Place> = Vec::new();
        let mut pick = |of: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed as usize % of
        };
        for step in steps {
            match step {
                Step::Begin(cost) => {
                    let cost = cost.min(limit);
                    let taken: u64 = under_way.iter().map(|place| place.cost).sum();
                    let verdict = request(&quota, &mut state, cost, now);
                    prop_assert_eq!(verdict.allowed, taken + cost <= limit);
                    if verdict.allowed {
                        prop_assert_eq!((verdict.remaining, verdict.reset), (limit - taken - cost, lease));
                        under_way.push(Place { cost, lapse: now + lease });
                    } else {
                        prop_assert_eq!(verdict.retry_after, SECOND);
                    }
                }
                Step::End if !under_way.is_empty() => {
                    let place = under_way.swap_remove(pick(under_way.len()));
                    quota.give_back(&mut state, place.cost, place.lapse, now);
                    // Twice is once: another's place is not given back, unless it lapses at the very same time.
                    if under_way.iter().all(|other| other.lapse != place.lapse) {
                        quota.give_back(&mut state, place.cost, place.lapse, now);
                    }
                }
                Step::Renew if !under_way.is_empty() => {
                    let index = pick(under_way.len());
                    let place = &mut under_way[index];
                    let renewed = places(&mut state).renew(place.cost, place.lapse, now + lease, now);
                    prop_assert_eq!(renewed, place.cost);
                    place.lapse = now + lease;
                }
                Step::Wait(share) => {
                    now += lease * share / 1_000;
                    under_way.retain(|place| place.lapse > now);
                }
                Step::End | Step::Renew => {}
            }
            let taken: u64 = under_way.iter().map(|place| place.cost).sum();
            prop_assert_eq!(quota.check(&mut state, 1, now).remaining, limit - taken);
        }
    }

    /// A place that has lapsed may be another's, and comes back for nobody.
    #[test]
    fn what_has_lapsed_is_not_renewed(limit in 1..12_u64, lease in 1..100 * SECOND, now in start()) {
        let quota = Quota::from(Concurrency::new(limit, lease).unwrap());
        let mut state = quota.fresh();
        request(&quota, &mut state, limit, now);
        prop_assert!(!quota.check(&mut state, 1, now + lease - 1).allowed);
        let later = now + lease;
        prop_assert!(quota.check(&mut state, limit, later).allowed);
        prop_assert_eq!(places(&mut state).renew(limit, later, later + lease, later), 0);
        prop_assert_eq!(quota.check(&mut state, limit, later).remaining, limit);
        prop_assert_eq!(quota.expires(&state), later);
    }

    /// After a step back of the clock nobody's place is held for longer than a lease.
    #[test]
    fn a_lapse_too_far_ahead_is_cut(limit in 1..12_u64, lease in 1..100 * SECOND, now in start(), back in 1..100 * SECOND) {
        let quota = Quota::from(Concurrency::new(limit, lease).unwrap());
        let mut state = quota.fresh();
        request(&quota, &mut state, limit, now);
        let stepped = now - back;
        let verdict = quota.check(&mut state, 1, stepped);
        prop_assert_eq!((verdict.allowed, verdict.reset), (false, lease));
        prop_assert!(quota.check(&mut state, limit, stepped + lease).allowed);
    }
}
