//! What some trials have beside all else: it follows from the seed too, but changes nothing of what else does.

use tidegate_core::Block;
use tidegate_store::Mode;

use super::{KEYS, MS};
use crate::case::{Case, Extra, Mishap};
use crate::dice::Dice;
use crate::law::Kind;

/// Other random numbers than those of the rest.
const OTHERS: u64 = 0x5bf0_3635_1d8e_4e2f;

/// What this trial has beside its limits, work and faults.
pub(crate) fn extras(case: &Case) -> Vec<Extra> {
    let mut dice = Dice(case.name.seed ^ OTHERS);
    let mut extras = Vec::new();
    for (nth, limit) in case.limits.iter().enumerate() {
        // As the configuration has it.
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
    }
    extras
}

/// What goes wrong with the node of a key.
fn node_fault(dice: &mut Dice) -> Mishap {
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
