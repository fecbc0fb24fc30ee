//! A request for the limits to decide, with its facts in the log.

use std::rc::Rc;

use tidegate_core::Micros;
use tidegate_tower::RuleCharge;

use crate::charged::Charged;

/// A request for the limits to decide.
#[derive(Clone, Debug)]
pub(crate) struct Asked<'p> {
    /// The charges. Requests of a caller share charges that depend on the caller alone.
    pub(crate) charged: Rc<Charged<'p>>,
    /// Duration of the request after limits admitted it, in us, if the log has it.
    pub(crate) service: Option<Micros>,
    /// The status of its answer. `None` if limits refused the request when it was logged.
    pub(crate) status: Option<u16>,
    /// Its real cost, if the cost comes from the answer and the log has it.
    pub(crate) cost: Option<u64>,
    /// Whether an earlier request had the same keys.
    pub(crate) is_known: bool,
    /// Its number among the requests of the log.
    pub(crate) number: u64,
    /// Its ID, if decisions are written.
    pub(crate) id: Option<Box<str>>,
    /// Number of earlier attempts in the retry model.
    pub(crate) attempt: u32,
}

impl Asked<'_> {
    /// Returns the units to charge when the hold of this charge ends. `None` charges the reserved units.
    pub(crate) fn used(&self, charge: &RuleCharge<'_>) -> Option<u64> {
        if charge.rule.count.is_some() {
            let status = self.status?;
            return (!charge.rule.counts(status)).then_some(0);
        }
        self.cost
    }
}
