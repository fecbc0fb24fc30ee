//! Checks that every metric, log field and key has a row in a table, and that every row names an existing metric, log field or key.

use std::collections::BTreeSet;

use serde_json::Value;
use tidegate_telemetry::access_log::AccessField;

use super::metric_names;
use super::pages::{page, words};

type Names = BTreeSet<String>;

/// Fails if `rows` and `there` do not have the same names.
fn same(rows: &Names, there: &Names, what: &str) {
    let missing: Vec<_> = there.difference(rows).collect();
    let unknown: Vec<_> = rows.difference(there).collect();
    assert!(missing.is_empty(), "{what} without a row: {missing:?}");
    assert!(unknown.is_empty(), "rows of no {what}: {unknown:?}");
}

fn rows(name: &str, heading: &str) -> Names {
    let cells = page(name).first_column(heading);
    let names = cells.iter().flat_map(|cell| words(cell));
    names.map(str::to_owned).collect()
}

#[test]
fn every_metric_has_a_row_and_every_row_a_metric() {
    let rows = rows("docs/operations.md", "Metrics");
    let rows: Names = rows
        .into_iter()
        .filter(|name| name.starts_with("tidegate_") || name.starts_with("process_"))
        .collect();
    let bare = |name: &String| {
        let name = name.strip_prefix("tidegate_").unwrap_or(name);
        let name = name.strip_suffix("_total").unwrap_or(name);
        let units = ["_seconds", "_bytes"];
        let name = units
            .iter()
            .find_map(|unit| name.strip_suffix(unit))
            .unwrap_or(name);
        name.to_owned()
    };
    same(
        &rows.iter().map(bare).collect(),
        &metric_names::registered(),
        "metric",
    );
    // The names that a gateway shows before its first request, with unit and `_total`.
    let shown = metric_names::shown();
    assert!(shown.len() >= 20, "{shown:?}");
    let wrong: Vec<_> = shown.difference(&rows).collect();
    assert!(wrong.is_empty(), "the table has another form of {wrong:?}");
}

#[test]
fn every_field_of_the_access_log_has_a_row_and_every_row_a_field() {
    let rows = rows("docs/operations.md", "The log");
    let fields = AccessField::ALL.iter().map(|field| field.name().to_owned());
    same(&rows, &fields.collect(), "field");
}

#[test]
fn every_field_of_the_status_document_has_a_row_and_every_row_a_field() {
    use tidegate_status::document::{Columns, Limit, Route, Status, Upstream};
    let mut status = Status::default();
    status.requests.series = Some(Columns::default());
    status.limits.push(Limit {
        series: Some(Columns::default()),
        ..Limit::default()
    });
    status.routes.push(Route::default());
    status.upstreams.push(Upstream::default());
    let document = serde_json::to_value(status).unwrap();
    let mut fields = Names::new();
    for (name, value) in document.as_object().unwrap() {
        // All entries of a list have the same fields, so the first one is enough.
        match value.get(0).unwrap_or(value).as_object() {
            Some(parts) => fields.extend(parts.keys().map(|part| format!("{name}.{part}"))),
            None => drop(fields.insert(name.clone())),
        }
    }
    same(&rows("docs/status.md", "The document"), &fields, "field");
}

/// Adds the paths of all keys in a part of the schema.
fn keys(schema: &Value, part: &Value, path: &str, names: &mut Names) {
    if let Some(name) = part["$ref"].as_str() {
        let name = name.strip_prefix("#").unwrap();
        return keys(schema, schema.pointer(name).unwrap(), path, names);
    }
    for either in ["anyOf", "oneOf"] {
        for part in part[either].as_array().into_iter().flatten() {
            keys(schema, part, path, names);
        }
    }
    if part["items"].is_object() {
        keys(schema, &part["items"], path, names);
    }
    if part["additionalProperties"].is_object() {
        let path = format!("{path}.NAME");
        keys(schema, &part["additionalProperties"], &path, names);
    }
    for (key, part) in part["properties"].as_object().into_iter().flatten() {
        let path = match path {
            "" => key.clone(),
            path => format!("{path}.{key}"),
        };
        keys(schema, part, &path, names);
        names.insert(path);
    }
}

#[test]
fn every_key_of_the_configuration_has_a_row_and_every_row_a_key() {
    let schema = tidegate_config::schema();
    let mut there = Names::new();
    keys(&schema, &schema, "", &mut there);
    // Each of these keys occurs in several places of the configuration, and all places share one row.
    let again = [
        "routes.headers.",
        "routes.reject.",
        "routes.timeouts.",
        "unmatched.",
        "plans.",
    ];
    there.retain(|key| !again.iter().any(|start| key.starts_with(start)));
    let page = page("docs/configuration.md");
    let headings = page.prose().filter_map(|line| line.strip_prefix("## "));
    let headings = headings.filter(|heading| *heading != "Values");
    let cells = headings.flat_map(|heading| page.first_column(heading));
    let rows = cells.map(|cell| words(&cell).next().unwrap_or_default().to_owned());
    same(&rows.collect(), &there, "key");
}
