//! Names of models in requests: prices (`per_model`) and budgets of their own (`allow`).

use std::sync::Arc;

use crate::yaml::Problem;
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_tower::{JsonPath, NamePattern, NamedBudgets, Per, Prices, Weight};

use crate::check::Check;
use crate::limits::WrittenLimit;
use crate::shape::Named;
use crate::value::Scalar;

/// The most names of one list.
const MAX_NAMES: usize = 64;

/// The prices of models. The price of a request's model multiplies the units that the request reserves and costs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PerModel")]
pub(crate) struct WrittenPrices {
    /// The path of the model's name, in the JSON body of the request and of the answer, such as model.
    pub(crate) json: Scalar<JsonPath>,
    /// The price of each model. `*` at the end of a name stands for any rest. A model without a price has the highest price.
    pub(crate) prices: Named<Scalar<Weight>, NamePattern>,
}

/// Reads the prices of models.
pub(super) fn prices(check: &mut Check<'_>, written: &WrittenPrices) -> Option<Prices> {
    let path = check.read(&written.json);
    let Named(entries) = &written.prices;
    if entries.is_empty() || entries.len() > MAX_NAMES {
        let message = format!("1 to {MAX_NAMES} prices are allowed here");
        check.refuse(Problem::new(written.json.place, message));
        return None;
    }
    let prices: Vec<_> = entries
        .iter()
        .map(|(name, price)| (check.read(name), check.read(price)))
        .collect();
    let prices = prices
        .into_iter()
        .map(|(name, price)| Some((name?, price?)));
    Some(Prices {
        path: path?,
        prices: prices.collect::<Option<_>>()?,
    })
}

/// Gives `json:PATH` in `per` the names of `allow`. Refuses the one without the other, and more than one such part.
pub(super) fn allow(check: &mut Check<'_>, limit: &WrittenLimit, per: &mut [Per]) {
    let mut parts = per.iter_mut().filter_map(|part| match part {
        Per::Json(budgets) => Some(budgets),
        _ => None,
    });
    let part = parts.next();
    let place = limit.per.as_ref().and_then(|per| {
        let mut scalars = per.iter().rev();
        scalars
            .find(|scalar| scalar.raw.starts_with("json:"))?
            .place
    });
    if parts.next().is_some() {
        let problem = Problem::new(place, "a limit has at most one `json:` under `per`");
        check.refuse(problem);
        return;
    }
    match (part, &limit.allow) {
        (None, None) => {}
        (None, Some(names)) => {
            let place = names.first().and_then(|scalar| scalar.place);
            let problem = Problem::new(place, "`allow` has no effect");
            check.refuse(
                problem
                    .note("it lists the names of a `json:` part: `per: [client, \"json:model\"]`"),
            );
        }
        (Some(budgets), names) => {
            let names = names.as_deref().unwrap_or_default();
            if names.is_empty() || names.len() > MAX_NAMES {
                let problem = Problem::new(
                    place,
                    "a client could invent names here, and have a new budget for each",
                );
                check.refuse(problem.note(format!(
                    "list 1 to {MAX_NAMES} names that have budgets of their own: `allow: [\"large-*\", small]`; all others share one"
                )));
            }
            let names: Vec<_> = names.iter().map(|name| check.read(name)).collect();
            *budgets = Arc::new(NamedBudgets {
                path: budgets.path.clone(),
                allow: names.into_iter().flatten().collect(),
            });
        }
    }
}
