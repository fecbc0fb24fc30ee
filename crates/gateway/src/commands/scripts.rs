//! `tidegate scripts`: prints the scripts that Redis gets from a gateway with this configuration.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;
use tidegate_config::StoreSettings;
use tidegate_store::redis::{ScriptExample, examples};
use tidegate_telemetry::log;

use super::{Failure, load, print};

/// The arguments of `scripts`.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// The name of a script. Without it, the names of all scripts are printed.
    name: Option<String>,
}

/// Prints the names of all scripts, or the text of one.
pub(super) fn run(config: &Path, options: &Options) -> Result<(), Failure> {
    let (settings, _) = load(config)?;
    let key_prefix = match &settings.store {
        StoreSettings::Redis(redis) => &redis.key_prefix,
        StoreSettings::Memory => "tidegate",
    };
    let routes = settings.routes.iter().map(|route| &route.policy);
    let of_doors = settings.decisions.iter().map(|it| &it.policy);
    let policies = [&settings.unmatched]
        .into_iter()
        .chain(routes)
        .chain(of_doors);
    let mut scripts = BTreeMap::new();
    for policy in policies {
        let limits: Vec<_> = policy.rules.iter().map(|rule| &*rule.limit).collect();
        scripts.extend(examples(&limits, key_prefix));
    }
    let Some(name) = &options.name else {
        let lines = scripts.values();
        let lines = lines.map(|it| format!("{}  {}\n", it.sha1, it.name));
        print(&lines.collect::<String>());
        return Ok(());
    };
    let script = scripts.get(name).ok_or_else(|| {
        Failure::usage(format!(
            "no limit of this configuration needs the script `{name}`; tidegate scripts prints the names"
        ))
    })?;
    // Only the text goes to standard output, so that it can be piped to redis-cli.
    print(&script.text);
    log::last_words(format!(
        "SHA-1: {}\nload:  tidegate scripts {name} | redis-cli -x SCRIPT LOAD\nrun:   {}\n",
        script.sha1,
        call(script)
    ));
    Ok(())
}

/// Returns the line of redis-cli that runs a script.
fn call(script: &ScriptExample) -> String {
    let words = script.keys.iter().chain(&script.arguments);
    let words = words.map(|word| format!(" '{}'", word.replace('\'', "'\\''")));
    let (sha1, keys) = (&script.sha1, script.keys.len());
    format!(
        "redis-cli EVALSHA {sha1} {keys}{}",
        words.collect::<String>()
    )
}
