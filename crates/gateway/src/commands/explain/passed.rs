//! Why routes before the one that a request takes did not take it.

use std::fmt::{self, Write as _};

use http::Method;
use tidegate_config::routes::RoutePlan;

use crate::request::conditions::{Met, Said};
use crate::request::target::Target;

/// Why a route of the same host and path did not take the request.
pub(super) fn passed_over(
    text: &mut String,
    route: &RoutePlan,
    target: &Target<'_>,
    method: &Method,
) -> fmt::Result {
    let name = &route.name;
    let said = Said {
        query: target.query,
        headers: target.headers,
        is_preflight: false,
    };
    let methods = route.shape.methods.iter();
    let methods: Vec<_> = methods.flatten().map(Method::as_str).collect();
    if !methods.is_empty() && !methods.contains(&method.as_str()) {
        let methods = methods.join(", ");
        return writeln!(text, "passed:   {name}, which serves {methods}");
    }
    let Some(conditions) = &route.shape.conditions else {
        return Ok(());
    };
    for (parameter, value) in &conditions.query {
        match said.has_parameter(parameter, value) {
            Met::Yes => {}
            Met::No => writeln!(
                text,
                "passed:   {name}, for the query has no {parameter}={value}"
            )?,
            Met::Unclear => writeln!(text, "passed:   {name}, for the query repeats {parameter}")?,
        }
    }
    for (header, value) in &conditions.headers {
        // The value may be a secret.
        match said.has_header(header, value) {
            Met::Yes => {}
            Met::No if !target.headers.contains_key(header) => {
                writeln!(text, "passed:   {name}, for there is no {header}")?
            }
            Met::No => writeln!(text, "passed:   {name}, for {header} has another value")?,
            Met::Unclear => writeln!(text, "passed:   {name}, for {header} is there twice")?,
        }
    }
    Ok(())
}
