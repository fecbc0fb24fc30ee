//! `/config`: the configuration in force, with the time at which it was applied.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::Response;
use serde::{Deserialize, Serialize};

use super::json;
use crate::runtime::fixed;
use crate::runtime::limit_keys::LimitKeys;
use crate::runtime::snapshot::Snapshot;
use tidegate_config::Settings;
use tidegate_telemetry::program;

/// The configuration in force, with the settings that determine the keys of its limits.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunningConfig {
    /// The version of the configuration's text; the same text has the same version.
    version: String,
    /// The UTC time at which the gateway applied the configuration.
    since: String,
    /// The number of routes.
    routes: usize,
    /// The settings that determine the keys of each limit.
    pub(crate) limits: Vec<LimitKeys>,
    /// The `balance` of each upstream that a route uses.
    #[serde(default)]
    upstreams: BTreeMap<String, String>,
    /// The version of the program.
    #[serde(default)]
    program: String,
    /// The commit from which the program was built, or `unknown`.
    #[serde(default)]
    commit: String,
    /// The build profile.
    #[serde(default)]
    profile: String,
    /// A fingerprint of each setting that only a restart changes, by its key.
    #[serde(default)]
    fixed: BTreeMap<String, String>,
}

impl RunningConfig {
    /// Returns the configuration keys whose values in `settings` differ from the values with which this gateway started. The gateway
    /// refuses a reload that changes these values. The list is empty for a gateway of another version, because its fingerprints may differ
    /// for other reasons.
    pub(crate) fn refuses(&self, settings: &Settings) -> Vec<&str> {
        if self.program != program::VERSION {
            return Vec::new();
        }
        let planned = fixed::fingerprints(settings);
        self.fixed
            .iter()
            .filter(|(key, was)| planned.get(*key) != Some(*was))
            .map(|(key, _)| key.as_str())
            .collect()
    }

    /// Describes the running program and its configuration. Removes control characters, because the texts come from another process.
    pub(crate) fn description(&self) -> String {
        let or_unknown = |text: &str| match text {
            "" => "unknown".to_owned(),
            text => crate::remote::plain(text),
        };
        format!(
            "tidegate {} (commit {}, profile {}), with configuration {} since {}",
            or_unknown(&self.program),
            or_unknown(&self.commit),
            or_unknown(&self.profile),
            or_unknown(&self.version),
            or_unknown(&self.since),
        )
    }
}

pub(super) fn answer(snapshot: &Snapshot) -> Response<Bytes> {
    let upstreams = snapshot.upstreams.iter();
    let upstreams = upstreams.map(|(name, it)| (name.to_string(), it.settings().balance_text()));
    json(&RunningConfig {
        version: snapshot.version.clone(),
        since: format!("{:.0}", snapshot.since),
        routes: snapshot.stack.routes.count(),
        limits: snapshot.limit_keys.clone(),
        upstreams: upstreams.collect(),
        program: program::VERSION.to_owned(),
        commit: program::COMMIT.to_owned(),
        profile: program::PROFILE.to_owned(),
        fixed: snapshot.fixed.clone(),
    })
}
