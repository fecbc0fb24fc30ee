//! A logged request that the limits decide, with the facts from its log line.

use std::rc::Rc;

use tidegate_core::Micros;
use tidegate_tower::RuleCharge;

use crate::charged::Charged;

/// A request that the limits decide.
#[derive(Clone, Debug)]
pub(crate) struct Asked<'p> {
    /// The charges. If a policy's charges depend on the caller alone, all requests of the caller under this policy share them.
    pub(crate) charged: Rc<Charged<'p>>,
    /// Duration of the request after limits admitted it, in us. `None` if the log lacks it, or if limits refused the request when it was
    /// logged.
    pub(crate) service: Option<Micros>,
    /// The status of the answer. `None` if limits refused the request when it was logged, or if another program carried the request.
    pub(crate) status: Option<u16>,
    /// The logged cost, if a limit takes the cost from the answer. `None` if no limit does, or if `status` is `None` because the gateway saw
    /// no answer.
    pub(crate) cost: Option<u64>,
    /// Whether the charges came from the cache. If so, an earlier request had the same keys.
    pub(crate) is_known: bool,
    /// The number of the request in the log, from 1.
    pub(crate) number: u64,
    /// The ID of the request, if `--decisions` writes it.
    pub(crate) id: Option<Box<str>>,
    /// Number of earlier attempts that the limits refused. Always 0 without `--retry after`.
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
