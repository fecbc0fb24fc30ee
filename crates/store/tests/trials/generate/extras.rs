//! The extras of trials. They follow from the seed too, and change no other part of the trial.

use tidegate_core::Block;
use tidegate_store::Mode;

use super::{KEYS, MS, reserves, shares, themes, waits};
use crate::case::{Case, Extra, Mishap};
use crate::law::Kind;
use tidegate_testkit::trials::Dice;

/// Makes the random numbers of extras differ from the numbers of other parts.
const OTHERS: u64 = 0x5bf0_3635_1d8e_4e2f;

/// The extras of a trial.
pub(crate) fn extras(case: &Case) -> Vec<Extra> {
    if themes::is_themed(case.name.seed) {
        return themes::extras(case);
    }
    if waits::is_themed(case.name.seed) {
        return waits::extras(case);
    }
    if shares::is_themed(case.name.seed) {
        return shares::extras(case);
    }
    if reserves::is_themed(case.name.seed) {
        return reserves::extras(case);
    }
    let mut dice = Dice(case.name.seed ^ OTHERS);
    let mut extras = Vec::new();
    for (nth, limit) in case.limits.iter().enumerate() {
        // A configuration can have calendars and blocks only in these modes.
        let is_whole = matches!(limit.mode, Mode::Exact | Mode::Local);
        if is_whole && limit.kind == Kind::FixedWindow && dice.one_in(2) {
            extras.push(Extra::ByCalendar(nth));
        }
        if is_whole && dice.one_in(5) {
            let span = dice.between(20, 400) * MS;
            let extend = dice.one_in(2);
            extras.push(Extra::Blocks(nth, Block { span, extend }));
        }
        if dice.one_in(8) {
            extras.push(Extra::Observed(nth));
        }
    }
    if case.in_memory {
        return extras;
    }
    if dice.one_in(12) {
        extras.push(Extra::Away(dice.between(20, 300)));
    } else if dice.one_in(12) {
        extras.push(Extra::Cluster);
        for _ in 0..dice.pick(&[0, 1, 1, 2, 3]) {
            let what = node_fault(&mut dice);
            extras.push(Extra::Also(what, dice.between(20, 500)));
        }
    } else if dice.one_in(26) {
        extras.push(Extra::Sentinels);
        let what = primary_fault(&mut dice);
        extras.push(Extra::Also(what, dice.between(20, 500)));
    } else if dice.one_in(12) {
        if !dice.one_in(4) {
            extras.push(Extra::Exact);
        }
        for _ in 0..dice.pick(&[1, 1, 2]) {
            let step = Mishap::ClockStepped(step(&mut dice));
            extras.push(Extra::Also(step, dice.between(20, 500)));
        }
    }
    extras
}

/// The step of a clock, in ms.
pub(crate) fn step(dice: &mut Dice) -> i64 {
    let by = match dice.between(0, 2) {
        0 => dice.between(5, 100),
        1 => dice.between(100, 1_500),
        _ => 3_600_000 + dice.between(0, 500),
    };
    let by = by.cast_signed();
    if dice.one_in(2) { by } else { -by }
}

/// A fault of a primary that sentinels watch.
fn primary_fault(dice: &mut Dice) -> Mishap {
    let (behind, frozen) = (dice.between(50, 300), dice.between(20, 600));
    dice.pick(&[
        Mishap::SentinelsAsked,
        Mishap::SentinelsBehind(behind),
        Mishap::SentinelsBehind(behind),
        Mishap::PrimaryKilled,
        Mishap::PrimaryFrozen(frozen),
        Mishap::PrimaryFlushed,
    ])
}

/// A fault of the node of a key.
pub(super) fn node_fault(dice: &mut Dice) -> Mishap {
    let key = dice.between(0, KEYS - 1);
    let (behind, frozen) = (dice.between(50, 300), dice.between(20, 400));
    dice.pick(&[
        Mishap::SlotMoved(key),
        Mishap::SlotMoved(key),
        Mishap::FailedOver(key),
        Mishap::Promoted(key, behind),
        Mishap::NodeFlushed(key),
        Mishap::NodeFrozen(key, frozen),
    ])
}
