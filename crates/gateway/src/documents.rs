//! Tests that compare README.md, CONTRIBUTING.md and docs/ with the program. CONTRIBUTING.md has the rules for writers.

mod commands;
mod configurations;
mod links;
mod metric_names;
mod pages;
mod tables;
