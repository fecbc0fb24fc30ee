//! `api_key`: the listed keys, and files with more keys.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::yaml::{ConfigError, Place, Problem, Source, Spanned};
use http::HeaderName;
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_identity::{ClientPlan, ClientPlans};
use tidegate_identity::{api_keys::ApiKeys, api_keys::ListedKey, api_keys::UnknownKey};

use crate::check::Check;
use crate::value::Scalar;
use crate::value::client::{Date, KeyHash, KeyName, PlanName};
use crate::value::word::FilePath;

/// Listed API keys.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApiKey {
    /// The header with the key; in Authorization, the key may follow `Bearer`. Default: X-API-Key.
    pub(crate) header: Option<Scalar<HeaderName>>,
    /// The listed keys. Default: none.
    pub(crate) keys: Option<Vec<Spanned<Key>>>,
    /// A file with more keys, in a list like `keys`. It is reread when it changes. Default: none.
    pub(crate) keys_file: Option<Scalar<FilePath>>,
    /// The treatment of other keys: fall_through, reject or accept. Default: fall_through.
    pub(crate) unknown: Option<Scalar<UnknownKey>>,
}

/// An API key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Key {
    /// The name of the client. If a client has several keys, all except one need `expires`.
    pub(crate) name: Scalar<KeyName>,
    /// The key's hash, never the key.
    pub(crate) hash: Scalar<KeyHash>,
    /// The date or time at which the key expires. Default: never.
    pub(crate) expires: Option<Scalar<Date>>,
    /// The name of the client's plan, which `plans` defines. Default: none; the limits' own quotas apply.
    pub(crate) plan: Option<Scalar<PlanName>>,
}

/// A file with API keys.
#[derive(Debug, Clone)]
pub struct KeyFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The table in which the keys of requests are looked up.
    pub keys: ApiKeys,
    /// The keys that the configuration itself lists.
    pub listed: Vec<ListedKey>,
    /// The plans that keys of the file may have.
    pub plans: ClientPlans,
}

/// The keys that all sources have listed so far, by name and by hash, with their places.
#[derive(Default)]
pub(crate) struct SeenKeys {
    clients: HashMap<String, SeenClient>,
    hashes: HashMap<[u8; 32], Option<Place>>,
}

/// The place and the plan of a client's first key, and the place of the client's first key that never expires.
struct SeenClient {
    place: Option<Place>,
    plan: Option<ClientPlan>,
    unending: Option<Option<Place>>,
}

/// Checks the keys of a key file, together with the keys that the configuration itself lists (`listed`).
pub(crate) fn keys(
    written: &[Spanned<Key>],
    source: &Source<'_>,
    listed: &[ListedKey],
    plans: &ClientPlans,
) -> Result<Vec<ListedKey>, ConfigError> {
    // Variables have no values in a key file, because programs write key files, and the running gateway rereads them.
    let mut check = Check::new(source, &|_| None);
    let mut seen = SeenKeys::default();
    for key in listed {
        let (plan, expires) = (key.plan.as_ref(), key.expires.is_some());
        one_client(&mut check, &mut seen, &key.name, None, plan, expires);
        seen.hashes.insert(key.sha256, None);
    }
    let keys = listed_keys(&mut check, written.iter(), plans, &mut seen);
    if check.problems.is_empty() {
        return Ok(keys);
    }
    Err(source.refuse(check.problems))
}

/// Reads a list of keys. Refuses two keys with the same hash. Keys with the same name belong to one client.
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
        if let (Some(date), Some(scalar)) = (expires, &key.expires)
            && date.is_over()
        {
            // A name with digits may be the key itself by mistake, so it is not shown.
            let whose = match is_plain_word(&key.name.raw) {
                true => format!("the key of `{}`", key.name.raw),
                false => "this key".to_owned(),
            };
            let problem = Problem::new(scalar.place, format!("{whose} has expired"));
            let remedy = "remove it, or give it a later date";
            check.warn(problem.note(format!("requests with it are not known any more: {remedy}")));
        }
        let plan = key.plan.as_ref();
        let plan = plan.and_then(|scalar| plan_of_key(check, scalar, plans));
        if let Some(KeyName(name)) = &name
            && plan.is_some() == key.plan.is_some()
        {
            let expires = key.expires.is_some();
            one_client(check, seen, name, key.name.place, plan.as_ref(), expires);
        }
        if let Some(hash) = &hash
            && let Some(first) = seen.hashes.insert(hash.0, key.hash.place)
        {
            let problem = Problem::new(key.hash.place, "this key is listed twice");
            check.refuse(problem.first_at(check.source, first));
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

/// Returns the plan of a key. Refuses a plan that is not defined.
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

/// Reads a key file. Sets `keys` to the keys of the file and the `listed` keys.
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
            let problem = Problem::new(scalar.place, "this file with keys is refused");
            check.refuse(problem.caused_by(&error));
        }
    }
    Some(KeyFile {
        path,
        keys: keys.clone(),
        listed,
        plans: plans.clone(),
    })
}

/// Refuses two keys of one name if they have different plans, or if both never expire. Such keys probably belong to two clients that have
/// the same name by mistake.
fn one_client(
    check: &mut Check<'_>,
    seen: &mut SeenKeys,
    name: &str,
    place: Option<Place>,
    plan: Option<&ClientPlan>,
    expires: bool,
) {
    let Some(client) = seen.clients.get_mut(name) else {
        let client = SeenClient {
            place,
            plan: plan.cloned(),
            unending: (!expires).then_some(place),
        };
        seen.clients.insert(name.to_owned(), client);
        return;
    };
    if client.plan.as_ref() != plan {
        let problem = Problem::new(place, "two keys of one name have different plans");
        let problem = problem.first_at(check.source, client.place);
        check.refuse(problem.note("a client has one plan, whichever of its keys it shows"));
    }
    match client.unending {
        Some(first) if !expires => {
            let problem = Problem::new(place, "two keys of one name never expire");
            let note = "give the old key of a client an `expires`, or another client another name";
            check.refuse(problem.first_at(check.source, first).note(note));
        }
        None if !expires => client.unending = Some(place),
        Some(_) | None => {}
    }
}

/// Whether a name of a plan or a key can be shown. A long name, or a name with digits or capitals, may be an API key in the wrong place.
pub(crate) fn is_plain_word(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || matches!(c, '_' | '-');
    name.len() <= 24 && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests;
