//! Tests that README.md, CONTRIBUTING.md and docs/ say what the program does. CONTRIBUTING.md has the rules for writers.

mod commands;
mod configurations;
mod links;
mod metric_names;
mod pages;
mod tables;
