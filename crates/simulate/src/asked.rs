//! What one request asks of the limits, and what the log knows of how it went.

use std::rc::Rc;

use tidegate_core::Micros;
use tidegate_tower::RuleCharge;

use crate::charged::Charged;

/// A request that limits are asked about.
#[derive(Clone, Debug)]
pub(crate) struct Asked<'p> {
    /// The same for all requests of a caller, where it depends on nothing else.
    pub(crate) charged: Rc<Charged<'p>>,
    /// For how long the request ran once limits let it through, in us, if the log says so.
    pub(crate) service: Option<Micros>,
    /// The status of its answer, unless limits refused it.
    pub(crate) status: Option<u16>,
    /// What it came to where its answer tells the cost, if the log says so.
    pub(crate) cost: Option<u64>,
    /// Whether its keys came before.
    pub(crate) is_known: bool,
    /// Its number among the requests of the log.
    pub(crate) number: u64,
    /// Its ID, if decisions are written.
    pub(crate) id: Option<Box<str>>,
    /// How often it came before, as the retry model has it.
    pub(crate) attempt: u32,
}

impl Asked<'_> {
    /// Returns the units to charge when the hold of this charge ends; none: the reserved units.
    pub(crate) fn used(&self, charge: &RuleCharge<'_>) -> Option<u64> {
        if charge.rule.count.is_some() {
            let status = self.status?;
            return (!charge.rule.counts(status)).then_some(0);
        }
        self.cost
    }
}
