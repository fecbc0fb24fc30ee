//! API keys: those that are listed, and the files that list more.

use std::sync::Arc;

use tidegate_tower::api_keys::{ApiKeys, ListedKey};
use tidegate_tower::{ClientPlan, ClientPlans};

use super::SeenKeys;
use crate::file::Key;
use crate::plan::KeyFile;
use crate::reading::Check;
use crate::value::{Date, FilePath, PlanName, Scalar};
use tidegate_yaml::Spanned;
use tidegate_yaml::{ConfigError, Place, Problem, Source};

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
