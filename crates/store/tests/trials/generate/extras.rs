//! What some trials have beside all else: it follows from the seed too, but changes nothing of what else does.

use tidegate_core::Block;
use tidegate_store::Mode;

use super::MS;
use crate::case::{Case, Extra};
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
    if !case.in_memory && dice.one_in(12) {
        extras.push(Extra::Away(dice.between(20, 300)));
    }
    extras
}
