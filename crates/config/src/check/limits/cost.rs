//! Costs: what a request is charged as, and whether that can ever fit.

use tidegate_core::Quota;
use tidegate_tower::Cost;

use crate::check::Check;
use crate::file::{self, File, SingleOr};
use crate::value::{Count, Scalar};
use tidegate_yaml::{Place, Problem};

impl Check<'_> {
    /// What a request costs at a limit with this quota.
    pub(super) fn cost(
        &mut self,
        limit: &file::Limit,
        quota: Option<&Quota>,
        file: &File,
    ) -> Option<Cost> {
        let cost = match limit.cost.as_ref()? {
            SingleOr::Single(scalar) => {
                let cost = self.at_least_1(scalar, "cost")?;
                if let Some(quota) = quota {
                    self.fits(&Cost::Fixed(cost), quota, scalar.place);
                }
                Cost::Fixed(cost)
            }
            SingleOr::Block(block) => self.told(&block.value, block.place, quota, file)?,
        };
        Some(cost)
    }

    /// A cost that a header says: a request's, or its answer's.
    fn told(
        &mut self,
        written: &file::Cost,
        place: Option<Place>,
        quota: Option<&Quota>,
        file: &File,
    ) -> Option<Cost> {
        let file::Cost {
            header,
            max,
            response_header,
            reserve,
        } = written;
        match (header, max, response_header, reserve) {
            (Some(header), Some(max), None, None) => {
                let name = self.read(header);
                let max = self.at_least_1(max, "max");
                if file.trusted_proxies.iter().flatten().next().is_none() {
                    let problem = Problem::new(header.place, "this header is never believed");
                    self.warn(problem.note(
                        "a cost is believed from `trusted_proxies` only, and none is listed: every request costs 1",
                    ));
                }
                Some(Cost::Header {
                    name: name?,
                    max: max?,
                })
            }
            (None, None, Some(header), Some(scalar)) => {
                let name = self.read(header);
                let reserve = self.at_least_1(scalar, "reserve");
                let cost = Cost::Answer {
                    name: name?,
                    reserve: reserve?,
                };
                if let Some(quota) = quota {
                    self.fits(&cost, quota, scalar.place);
                }
                Some(cost)
            }
            _ => {
                let problem = Problem::new(place, "this is not a valid cost");
                self.refuse(
                    problem.note(
                        "allowed here: `header` and `max`, or `response_header` and `reserve`",
                    ),
                );
                None
            }
        }
    }

    /// Refuses a cost that is the same for every request, and never fits.
    pub(super) fn fits(&mut self, cost: &Cost, quota: &Quota, place: Option<Place>) {
        let capacity = quota.capacity();
        if let Cost::Fixed(cost) | Cost::Answer { reserve: cost, .. } = cost
            && *cost > capacity
        {
            self.refuse(Problem::new(
                place,
                format!("a cost of {cost} never fits where at most {capacity} is admitted at once"),
            ));
        }
    }

    fn at_least_1(&mut self, scalar: &Scalar<Count>, what: &str) -> Option<u64> {
        let Count(number) = self.read(scalar)?;
        if number == 0 {
            let message = format!("`{what}` must be at least 1");
            self.refuse(Problem::new(scalar.place, message));
            return None;
        }
        Some(number)
    }
}
