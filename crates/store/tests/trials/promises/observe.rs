//! `action: observe`: limits that only count.

use tidegate_store::{OnFailure, Outcome};

use super::{Breach, Promise};
use crate::history::{Charge, History, Request, Said};

pub(super) const NOBODY: Promise = Promise {
    name: "observe",
    words: "A limit with `action: observe` refuses nobody.",
    check: |history| {
        let breaches = history.requests.iter();
        let breaches = breaches.filter(|_| history.judges_gateways());
        breaches
            .filter_map(|request| unfounded(history, request))
            .collect()
    },
};

/// Finds a refusal without an enforced limit that refused.
fn unfounded(history: &History, request: &Request) -> Option<Breach> {
    let Said::Decided { outcome, via, .. } = &request.said else {
        return None;
    };
    let refuses = |charge: &Charge| match outcome {
        Outcome::Admitted => true,
        Outcome::Refused => charge.refused_for().is_some(),
        Outcome::Unavailable => history.limits[charge.limit].on_failure == OnFailure::Closed,
    };
    let is_observed = |charge: &&Charge| history.limits[charge.limit].is_observed;
    let mut enforced = request.charges.iter().filter(|charge| !is_observed(charge));
    let observed = request.charges.iter().find(is_observed)?;
    (!enforced.any(refuses) && *outcome != Outcome::Admitted).then(|| Breach {
        promise: NOBODY.name,
        limit: observed.limit,
        key: Some(observed.key),
        span: request.asked,
        what: format!("{outcome:?} via {via:?}, by no other limit"),
    })
}
