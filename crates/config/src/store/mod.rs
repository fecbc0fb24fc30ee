//! The store of limits, and the secret that hides the names of clients in the store (`store`, `secret`).

pub(crate) mod redis;
pub(crate) mod redis_tls;

use std::path::PathBuf;
use std::time::Duration;

use crate::yaml::Problem;
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_store::redis::RedisOptions;
use tidegate_store::{Mode, OnFailure};

use crate::check::Check;
use crate::secret::{Secret, filled_in, short};
use crate::shape::SingleOr;
use crate::store::redis::{Redis, redis_options};
use crate::value::word::FilePath;
use crate::value::{Fault, Scalar, Value};

/// A store that has settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1))]
pub(crate) struct Store {
    /// A store in Redis, which gateways share.
    pub(crate) redis: Option<Redis>,
}

/// A store without settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreWord {
    Memory,
}

impl Value for StoreWord {
    const NAME: &'static str = "StoreWord";
    const WHAT: &'static str = "a store";
    const ALLOWED: &'static str = "memory, or `redis: { url: … }`";

    fn read(text: &str) -> Result<Self, Fault> {
        (text == "memory")
            .then_some(Self::Memory)
            .ok_or(Fault::Form)
    }
}

/// The value of `secret`. `None` if the text is empty.
pub(crate) struct SecretText(pub(crate) Option<Secret>);

impl Value for SecretText {
    const NAME: &'static str = "Secret";
    const WHAT: &'static str = "a secret";
    const ALLOWED: &'static str = "any text; empty is none";
    const SHOWN: bool = false;

    fn read(text: &str) -> Result<Self, Fault> {
        filled_in(text)?;
        Ok(Self((!text.is_empty()).then(|| Secret::new(text))))
    }
}

/// The store of limits.
#[derive(Clone, Debug)]
pub enum StoreSettings {
    /// The budgets are in the memory of this process.
    Memory,
    /// The budgets are in Redis.
    Redis(RedisOptions),
}

/// The store's defaults for limits that lack `mode` or `on_failure`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoreDefaults {
    /// Whether budgets are in the memory of this gateway, so that no other gateway shares them.
    pub(crate) in_memory: bool,
    pub(crate) on_failure: OnFailure,
    pub(crate) mode: Mode,
    /// The time between two exchanges of the counts of `synced` limits. Zero if budgets are in memory, or if `gateways` is 1.
    pub(crate) sync_every: Duration,
}

/// Reads the store, and the defaults of its limits.
pub(crate) fn store(
    check: &mut Check<'_>,
    written: Option<&SingleOr<StoreWord, Store>>,
) -> (Option<StoreSettings>, StoreDefaults) {
    let in_memory = StoreDefaults {
        in_memory: true,
        ..StoreDefaults::default()
    };
    let store = match written {
        None => return (Some(StoreSettings::Memory), in_memory),
        Some(SingleOr::Single(word)) => {
            let memory = check.read(word).map(|_| StoreSettings::Memory);
            return (memory, in_memory);
        }
        Some(SingleOr::Block(store)) => store,
    };
    let Some(redis) = &store.value.redis else {
        let problem = Problem::new(store.place, "no store is named here");
        check.refuse(problem.note("allowed here: memory, or `redis: { url: … }`"));
        return (None, StoreDefaults::default());
    };
    let on_failure = check.read_some(redis.on_failure.as_ref());
    let mode = check.read_some(redis.mode.as_ref());
    let options = redis_options(check, redis);
    let others = options
        .as_ref()
        .filter(|options| options.gateways != Some(1));
    let sync_every = others.map(|options| options.sync_every);
    let shared = StoreDefaults {
        in_memory: false,
        on_failure: on_failure.unwrap_or_default(),
        mode: mode.unwrap_or_default(),
        sync_every: sync_every.unwrap_or_default(),
    };
    (options.map(StoreSettings::Redis), shared)
}

pub(crate) fn secret(
    check: &mut Check<'_>,
    written: Option<&Scalar<SecretText>>,
    store: Option<&StoreSettings>,
) -> Option<Secret> {
    let secret = check.read_some(written).and_then(|text| text.0);
    let place = written.and_then(|scalar| scalar.place);
    if let Some(secret) = &secret {
        short(check, "secret", secret, place);
    } else if matches!(store, Some(StoreSettings::Redis(_))) {
        check.warn(Problem::new(place, "there is no `secret`").note(
            "the gateways then make one and keep it in Redis, so a reader of Redis can find out which clients are in it. \
             Set the same random text on all gateways",
        ));
    }
    secret
}

/// Returns the path of the file for overrides. Warns and returns `None` if the store is in Redis, because the gateways then keep overrides
/// in Redis.
pub(crate) fn overrides_file(
    check: &mut Check<'_>,
    written: Option<&Scalar<FilePath>>,
    store: &StoreSettings,
) -> Option<PathBuf> {
    let scalar = written?;
    let path = check.path(scalar)?;
    if matches!(store, StoreSettings::Redis(_)) {
        let problem = Problem::new(scalar.place, "`overrides_file` has no effect with Redis");
        check.warn(problem.note("gateways on Redis keep overrides there, for all of them"));
        return None;
    }
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let is_missing = folder.is_some_and(|folder| !folder.is_dir());
    if is_missing || path.is_dir() {
        let problem = Problem::new(scalar.place, "overrides cannot be kept in this file");
        check.refuse(problem.note(match is_missing {
            true => "its folder does not exist; the gateway makes the file, and no folder",
            false => "it is a folder; name a file in it, such as overrides.jsonl",
        }));
        return None;
    }
    Some(path)
}

#[cfg(test)]
mod tests;
