//! The configuration as users meet it: one broken file per rule with its exact message, warnings,
//! and the shipped reference.
//!
//! `UPDATE_BROKEN=1 cargo test -p tidegate-config --test config` writes the messages anew; read the difference.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_config::{self as config, ConfigError, Settings, StoreSettings, Warning};
use tidegate_telemetry::RequestOutcome;
use tidegate_telemetry::access_log::{
    AccessField, AccessFilter, AccessFormat, AccessLogSettings, AccessPiece,
};
use tidegate_telemetry::log::LogFormat;
use tidegate_telemetry::traces::TraceSettings;

#[path = "config/bounds.rs"]
mod bounds;
#[path = "config/broken.rs"]
mod broken;
#[path = "config/decisions.rs"]
mod decisions;
#[path = "config/deployment.rs"]
mod deployment;
#[path = "config/files.rs"]
mod files;
#[path = "config/mistakes.rs"]
mod mistakes;
#[path = "config/mistakes_of_limits.rs"]
mod mistakes_of_limits;
#[path = "config/mistakes_of_routes.rs"]
mod mistakes_of_routes;
#[path = "config/numbers.rs"]
mod numbers;
#[path = "config/settings.rs"]
mod settings;
#[path = "config/tracing.rs"]
mod tracing;
#[path = "config/warnings.rs"]
mod warnings;

/// No message may hold this; in the broken files and in the environment it is every secret.
const SECRET: &str = "hunter2";

/// The hash of an API key.
const HASH: &str = "c48a01f49fd0f2cc404bc3cbbc80e91457a3d41bb429a695243de4c61794155c";

fn env(name: &str) -> Option<String> {
    let value = match name {
        "PASSWORD" => SECRET,
        "REDIS_URL" => "redis://:hunter2@redis:port",
        "NUMBER" => "5",
        _ => return None,
    };
    Some(value.to_owned())
}

fn parse(text: &str) -> Result<(Settings, Vec<Warning>), ConfigError> {
    config::parse("gateway.yaml", text, env)
}

fn settings(text: &str) -> Settings {
    parse(text).unwrap_or_else(|error| panic!("{error}")).0
}

/// All warnings of a configuration.
#[track_caller]
fn warnings(text: &str) -> String {
    let (_, warnings) = parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    warnings.iter().map(|it| format!("{it}\n")).collect()
}

#[track_caller]
fn warned(text: &str, expected: &str) {
    let all = warnings(text);
    assert!(all.contains(expected), "{text}: {all}");
}

#[track_caller]
fn not_warned(text: &str, part: &str) {
    let all = warnings(text);
    assert!(!all.contains(part), "{text}: {all}");
}

/// A configuration of one route, and something more.
fn with(more: &str) -> String {
    format!("routes: [{{ path: /**, upstream: http://127.0.0.1:9000 }}]\n{more}")
}
