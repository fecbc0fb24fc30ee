//! Real costs that are charged afterwards. The whole cost counts, even beyond the capacity. No request is admitted until the cost is paid
//! off, or its window has passed.

use proptest::prelude::*;
use tidegate_core::{MAX_EXACT, MAX_SPAN, Micros, Quota, State, TokenBucket};

use crate::buckets::{Exact, quota as bucket_of};
use crate::traffic::{Key, SECOND, bucket, cases, fixed, period, quota, start, traffic};

/// A year, in us.
const YEAR: Micros = 365 * 86_400 * SECOND;

/// The real cost beyond the reserved cost: in most cases zero, in others up to a hundred times the capacity.
fn more() -> impl Strategy<Value = Vec<Option<u64>>> {
    let more = prop_oneof![
        3 => Just(None),
        1 => (1..=1_000_u64).prop_map(Some),
        1 => (1_000..=100_000_u64).prop_map(Some),
    ];
    proptest::collection::vec(more, 40)
}

/// This number of thousandths of a capacity.
fn share(quota: &Quota, thousandths: u64) -> u64 {
    1.max(quota.capacity() * thousandths / 1_000)
}

proptest! {
    #![proptest_config(cases(256))]

    /// A bucket admits the same requests as exact arithmetic in which every cost is charged whole, or is stricter by less than a millionth.
    #[test]
    fn a_bucket_pays_off_all_that_its_requests_came_to(
        (capacity, rate) in bucket(), now in start(), ops in traffic(40), more in more(),
    ) {
        let mut key = Key::new(bucket_of(false, capacity, rate), now);
        let (mut exact, mut slower) = (Exact::new(rate, now), Exact::slower(rate, now));
        for (op, more) in ops.into_iter().zip(more) {
            let cost = key.wait(op);
            exact.pass(key.now);
            slower.pass(key.now);
            let verdict = key.request(cost);
            prop_assert!(!verdict.allowed || exact.fits(cost, capacity), "looser than exact: {verdict:?}");
            prop_assert!(verdict.allowed || !slower.fits(cost, capacity), "too strict: {verdict:?}");
            if !verdict.allowed {
                let (soonest, latest) = (exact.room(cost, capacity), slower.room(cost, capacity));
                prop_assert!((soonest..=latest).contains(&u128::from(verdict.retry_after)), "{verdict:?}");
                continue;
            }
            let more = more.map_or(0, |more| share(&key.quota, more));
            key.quota.charge(&mut key.state, more, key.now);
            exact.charge(cost + more);
            slower.charge(cost + more);
            if slower.paid() > u128::from(28 * YEAR) {
                // The debt is at its bound.
                return Ok(());
            }
            // The next requests come when a part of the debt is paid off.
            let asked = key.ask(1);
            let (soonest, latest) = (exact.paid(), slower.paid());
            prop_assert!((soonest..=latest).contains(&u128::from(asked.reset)), "{asked:?}");
            key.now += asked.retry_after / 2;
            exact.pass(key.now);
            slower.pass(key.now);
        }
    }

    /// Under every algorithm, a key beyond its limit is refused until the retry-after, and admitted then. Its state does not expire before.
    #[test]
    fn whoever_owes_is_refused_until_the_time_that_is_told(
        quota in quota(), now in start(), ops in traffic(20), more in 0..=5_000_u64, cost in 0..=1_000_u64,
    ) {
        let mut key = Key::new(quota, now);
        for op in ops {
            key.meet(op);
        }
        let cost = share(&quota, cost);
        let room = key.ask(1).remaining;
        key.quota.charge(&mut key.state, room + share(&quota, more), key.now);
        let refused = key.ask(cost);
        prop_assert!(!refused.allowed && refused.remaining == 0, "{refused:?}");
        let at = key.now + refused.retry_after;
        prop_assert!(!key.ask_at(cost, at - 1).allowed, "{refused:?} was too late");
        prop_assert!(key.ask_at(cost, at).allowed, "{refused:?} was too soon");
        prop_assert!(quota.expires(&key.state) >= at.min(key.now + refused.reset));
        prop_assert_eq!(key.ask_at(cost, quota.expires(&key.state)).remaining, quota.capacity());
    }

    /// The excess is the number of units that must be released before a request may fit.
    #[test]
    fn the_excess_is_what_is_beyond_the_capacity(quota in quota(), now in start(), more in 0..=5_000_u64) {
        let mut key = Key::new(quota, now);
        let capacity = quota.capacity();
        prop_assert_eq!(quota.excess(&key.state, key.now), 0);
        let used = share(&quota, more);
        key.quota.charge(&mut key.state, used, key.now);
        prop_assume!(key.ask(1).reset < 28 * YEAR);
        prop_assert_eq!(quota.excess(&key.state, key.now), used.saturating_sub(capacity));
    }

    /// A smaller quota or another rate does not reduce a debt.
    #[test]
    fn a_debt_is_kept_in_units_under_other_numbers(
        old in bucket(), new in bucket(), now in start(), more in 0..=50_u64,
    ) {
        let (_, rate) = new;
        let [old, new] = [old, new].map(|(capacity, rate)| bucket_of(false, capacity, rate));
        let mut key = Key::new(old, now);
        key.charge_all();
        old.charge(&mut key.state, old.capacity() * more, now);
        prop_assume!(key.ask(1).reset < 28 * YEAR);
        let owed = old.capacity() * (more + 1);
        let pays = u128::from(owed) * u128::from(rate.per) / u128::from(rate.count);
        prop_assume!(pays < u128::from(28 * YEAR) && owed < 900 * new.capacity());
        prop_assert_eq!(new.excess(&key.state, now), owed.saturating_sub(new.capacity()));
        let refused = new.check(&mut key.state.clone(), 1, now);
        prop_assert!(u128::from(refused.reset) >= pays, "{refused:?}, not {pays}");
        prop_assert_eq!(new.expires(&key.state), now + refused.reset);
    }

    /// For any costs, however often they are charged, integers stay below 2^53. The debt of a bucket may be a thousand times its capacity,
    /// or the units that are paid off in 28 years.
    #[test]
    fn what_is_owed_stays_exact_and_is_bounded_far_away(
        (capacity, rate) in bucket(), now in start(), costs in proptest::collection::vec(0..64_u32, 1..20),
    ) {
        let quota = bucket_of(false, capacity, rate);
        let mut key = Key::new(quota, now);
        for bits in costs {
            key.quota.charge(&mut key.state, MAX_EXACT.checked_shr(bits).unwrap_or(0), key.now);
            let (State::TokenBucket(debt), Quota::TokenBucket(bucket)) = (&key.state, quota) else {
                unreachable!()
            };
            let [_, weight, pay, _] = bucket.meter().numbers();
            prop_assert!(debt.owed + pay <= MAX_EXACT);
            let verdict = key.ask(1);
            prop_assert!(key.now + verdict.reset < MAX_EXACT && verdict.reset <= MAX_SPAN);
            prop_assert!(verdict.retry_after <= verdict.reset);
            prop_assert_eq!(quota.expires(&key.state), key.now + verdict.reset);
            if bits == 0 {
                let units = debt.owed / weight;
                prop_assert!(units >= 1_000 * capacity || verdict.reset >= 28 * YEAR, "{units} of {capacity}: {verdict:?}");
            }
            key.now += (verdict.retry_after / 3).min(YEAR);
        }
    }

    /// A step back of the clock does not reduce a debt, and refuses no key for longer than the debt lasts.
    #[test]
    fn a_clock_that_steps_back_keeps_what_is_owed(quota in quota(), now in start(), more in 0..=5_000_u64) {
        let mut key = Key::new(quota, now);
        key.charge_all();
        key.quota.charge(&mut key.state, share(&quota, more), key.now);
        let (before, reset) = (quota.excess(&key.state, now), key.ask(1).reset);
        let back = now - 3 * period(&quota).min(now / 4);
        quota.check(&mut key.state, 1, back);
        prop_assert_eq!(quota.excess(&key.state, back), before);
        prop_assert!(key.ask_at(1, back).reset <= reset + period(&quota));
    }
}

/// A bucket and a window: the real cost is 1,000, and the request reserved 5.
#[test]
fn a_thousand_that_were_not_reserved() {
    let rate = tidegate_core::Rate {
        count: 1,
        per: SECOND,
    };
    let bucket = TokenBucket::new(1_000, rate).unwrap();
    for (quota, waits) in [
        (Quota::from(bucket), 50),
        (fixed(1_000, 100 * SECOND).into(), 100),
    ] {
        let mut key = Key::new(quota, 5_000 * SECOND);
        assert!(key.request(5).allowed);
        key.quota.charge(&mut key.state, 995, key.now);
        assert_eq!(key.ask(50).retry_after, waits * SECOND);
        assert_eq!(quota.expires(&key.state), key.now + key.ask(1).reset);
    }
}
