//! When a route's requests are sent once more, and how many at most.

use std::time::Duration;

use tower::retry::budget::TpsBudget;

use super::settings::RetryPlan;

/// For how long a request adds to the budget.
const REMEMBERED: Duration = Duration::from_secs(10);

/// Retries a second that are always allowed, so that a route with few requests can have some.
const ALWAYS: u32 = 1;

/// The retries of a route.
#[derive(Debug)]
pub struct Retries {
    pub(crate) plan: RetryPlan,
    /// Retries cannot make much more load than there is: this share of it, and one a second.
    pub(crate) budget: TpsBudget,
}

impl Retries {
    /// The retries of one route; its budget begins empty.
    pub fn new(plan: RetryPlan) -> Self {
        // At most 100 of them.
        let share = plan.budget as f32 / 100.0;
        Self {
            budget: TpsBudget::new(REMEMBERED, ALWAYS, share),
            plan,
        }
    }
}
