//! `api_key`: keys that are listed, and the files that list more.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use http::HeaderName;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Map;
use tidegate_tower::api_keys::{ApiKeys, ListedKey, UnknownKey};
use tidegate_tower::{ClientPlan, ClientPlans};
use tidegate_yaml::{ConfigError, Place, Problem, Source, Spanned};

use crate::check::Check;
use crate::clients::SeenKeys;
use crate::value::number::pattern;
use crate::value::word::{FilePath, choice, name};
use crate::value::{Fault, Scalar, Value};

/// Listed API keys.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApiKey {
    /// The header. Default: X-API-Key.
    pub(crate) header: Option<Scalar<HeaderName>>,
    /// The keys that are known.
    pub(crate) keys: Option<Vec<Spanned<Key>>>,
    /// A file with more of them, a list like `keys`; reread when it changes.
    pub(crate) keys_file: Option<Scalar<FilePath>>,
    /// What becomes of any other: fall_through, reject or accept. Default: fall_through.
    pub(crate) unknown: Option<Scalar<UnknownKey>>,
}

/// An API key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Key {
    /// What the client is called.
    pub(crate) name: Scalar<KeyName>,
    /// The key's hash, never the key.
    pub(crate) hash: Scalar<KeyHash>,
    /// From then on it is unknown. Default: never.
    pub(crate) expires: Option<Scalar<Date>>,
    /// The plan of its client, a name from `plans`. Default: none, and the limits' own quotas.
    pub(crate) plan: Option<Scalar<PlanName>>,
}

choice!(
    UnknownKey,
    "UnknownKey",
    "a treatment of unknown keys",
    [
        ("fall_through", Self::FallThrough),
        ("reject", Self::Reject),
        ("accept", Self::Accept),
    ]
);

name!(
    /// The name of an API key, which is what its client is called. Not shown: it may be the key, by mistake.
    KeyName,
    "a key's name",
    "1 to 128 characters, without blanks",
    |c| !c.is_whitespace() && !c.is_control(),
    shown: false
);

name!(
    /// The plan of an API key. Not shown: it may be the key, by mistake.
    PlanName,
    "a plan's name",
    "letters, digits, `.`, `_` and `-`; 128 at most",
    |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'),
    shown: false
);

/// The hash of an API key. Whoever writes the key itself here should not read it in a log.
pub(crate) struct KeyHash(pub(crate) [u8; 32]);

impl Value for KeyHash {
    const NAME: &'static str = "KeyHash";
    const WHAT: &'static str = "the hash of a key";
    const ALLOWED: &'static str = "sha256: and 64 hexadecimal digits";
    const SHOWN: bool = false;

    fn read(text: &str) -> Result<Self, Fault> {
        let digits = text.strip_prefix("sha256:").ok_or(Fault::Form)?;
        if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Fault::Form);
        }
        let mut hash = [0; 32];
        for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| Fault::Form)?;
        }
        Ok(Self(hash))
    }
}

/// A time, as a span since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Date(pub(crate) Duration);

impl Value for Date {
    const NAME: &'static str = "Date";
    const WHAT: &'static str = "a date";
    const ALLOWED: &'static str = "a day or a time in UTC: 2027-01-31 or 2027-01-31T12:00:00Z";

    fn read(text: &str) -> Result<Self, Fault> {
        let midnight = || humantime::parse_rfc3339(&format!("{text}T00:00:00Z"));
        let time = humantime::parse_rfc3339(text).or_else(|_| midnight());
        let since = time
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        since.map(Self).ok_or(Fault::Form)
    }

    fn schema() -> Map<String, serde_json::Value> {
        pattern(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.]+Z)?$")
    }
}

/// A file with API keys.
#[derive(Debug, Clone)]
pub struct KeyFile {
    /// Where it is.
    pub path: PathBuf,
    /// The table that requests are looked up in.
    pub keys: ApiKeys,
    /// The keys that the configuration itself lists beside it.
    pub listed: Vec<ListedKey>,
    /// The plans that its keys may have.
    pub plans: ClientPlans,
}

/// Checks a file with keys beside those that are listed elsewhere.
pub(crate) fn keys(
    written: &[Spanned<Key>],
    source: &Source<'_>,
    listed: &[ListedKey],
    plans: &ClientPlans,
) -> Result<Vec<ListedKey>, ConfigError> {
    // A key file names no variables: it is made by programs, and read while others run.
    let mut check = Check::new(source, &|_| None);
    let mut seen = SeenKeys::default();
    for key in listed {
        seen.names.insert(key.name.to_string(), None);
        seen.hashes.insert(key.sha256, None);
    }
    let keys = listed_keys(&mut check, written.iter(), plans, &mut seen);
    if check.problems.is_empty() {
        return Ok(keys);
    }
    Err(source.refuse(check.problems))
}

/// The keys of a list, each with a name and a hash that no other has.
pub(crate) fn listed_keys<'f>(
    check: &mut Check<'_>,
    written: impl Iterator<Item = &'f Spanned<Key>>,
    plans: &ClientPlans,
    seen: &mut SeenKeys,
) -> Vec<ListedKey> {
    let mut keys = Vec::new();
    for key in written {
        let key = &key.value;
        let name = check.read(&key.name);
        let hash = check.read(&key.hash);
        let expires = check.read_some(key.expires.as_ref());
        let plan = key.plan.as_ref();
        let plan = plan.and_then(|scalar| plan_of_key(check, scalar, plans));
        if let Some(name) = &name {
            let first = seen.names.insert(name.0.clone(), key.name.place);
            seen_before(check, first, key.name.place, "two keys have the same name");
        }
        if let Some(hash) = &hash {
            let first = seen.hashes.insert(hash.0, key.hash.place);
            seen_before(check, first, key.hash.place, "the same key has two names");
        }
        if let (Some(name), Some(hash)) = (name, hash) {
            keys.push(ListedKey {
                name: Arc::from(name.0),
                sha256: hash.0,
                expires: expires.map(|Date(since)| since),
                plan,
            });
        }
    }
    keys
}

/// The plan of a key.
fn plan_of_key(
    check: &mut Check<'_>,
    scalar: &Scalar<PlanName>,
    plans: &ClientPlans,
) -> Option<ClientPlan> {
    let PlanName(name) = check.read(scalar)?;
    let plan = plans.called(&name);
    if plan.is_none() {
        let length = name.chars().count();
        let place = scalar.place.map(|place| Place { length, ..place });
        let problem = if is_plain_word(&scalar.raw) {
            Problem::new(place, format!("there is no plan `{name}`"))
        } else {
            Problem::new(place, "there is no plan of this name").without_line()
        };
        check.refuse(match plans.iter().len() {
            0 => problem.note("define it under `plans`, or remove `plan` here"),
            _ => problem.choices(&name, plans.iter().map(ClientPlan::name)),
        });
    }
    plan
}

/// Reads a file with keys, and puts them beside those that are listed.
pub(crate) fn key_file(
    check: &mut Check<'_>,
    scalar: &Scalar<FilePath>,
    listed: Vec<ListedKey>,
    keys: &ApiKeys,
    plans: &ClientPlans,
) -> Option<KeyFile> {
    let path = check.file(scalar)?;
    match crate::load_keys(&path, &listed, plans) {
        Ok(more) => keys.replace(listed.iter().cloned().chain(more)),
        Err(error) => {
            let mut problem = Problem::new(scalar.place, "this file with keys is refused");
            for line in error.to_string().lines().filter(|line| !line.is_empty()) {
                problem = problem.note(line.trim_start().trim_start_matches("= "));
            }
            check.refuse(problem);
        }
    }
    Some(KeyFile {
        path,
        keys: keys.clone(),
        listed,
        plans: plans.clone(),
    })
}

/// Refuses what was there already, if it was.
fn seen_before(
    check: &mut Check<'_>,
    first: Option<Option<Place>>,
    place: Option<Place>,
    what: &str,
) {
    if let Some(first) = first {
        let mut problem = Problem::new(place, what);
        if let Some(first) = first {
            problem = problem.note(format!("the first is at {}", check.source.at(first)));
        }
        check.refuse(problem);
    }
}

/// Whether a plan's name can be shown. What has digits or capitals may be an API key that stands in the wrong place.
fn is_plain_word(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || matches!(c, '_' | '-');
    name.len() <= 24 && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests;
