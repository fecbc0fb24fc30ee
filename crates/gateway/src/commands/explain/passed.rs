//! Explains why earlier routes did not match the request.

use std::fmt::{self, Write as _};

use http::Method;
use tidegate_config::routes::RouteSettings;

use crate::request::conditions::{Met, has_header, has_parameter};
use crate::request::target::Target;

/// Writes why a route with a matching host and path did not match the request.
pub(super) fn passed_over(
    text: &mut String,
    route: &RouteSettings,
    target: &Target<'_>,
    method: &Method,
) -> fmt::Result {
    let name = &route.name;
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
        let why = match has_parameter(target.query, parameter, value) {
            Met::Yes => continue,
            Met::No => format!("the query has no {parameter}={value}"),
            Met::Unclear => format!("the query repeats {parameter}"),
        };
        writeln!(text, "passed:   {name}, for {why}")?;
    }
    for (header, value) in &conditions.headers {
        // The expected value is not printed, because it may be a secret.
        let why = match has_header(target.headers, header, value) {
            Met::Yes => continue,
            Met::No if !target.headers.contains_key(header) => format!("there is no {header}"),
            Met::No => format!("{header} has another value"),
            Met::Unclear => format!("{header} is there twice"),
        };
        writeln!(text, "passed:   {name}, for {why}")?;
    }
    Ok(())
}
