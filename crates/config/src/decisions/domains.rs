//! `rate_limit_service`: the limits of descriptors.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use crate::yaml::{Place, Problem, Spanned};
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_doors::{Domain, DomainList, Domains, Entry, Target, ValuePattern};
use tidegate_store::MAX_CHARGES;
use tidegate_tower::{Per, Rule};

use crate::check::Check;
use crate::decisions::descriptor::{DescriptorKey, DescriptorValue, DomainName};
use crate::decisions::files::RatelimitFiles;
use crate::limits::{Rules, defined};
use crate::shape::Named;
use crate::value::Scalar;
use crate::value::word::{FilePath, LimitName};

/// The most keys of a `match`.
const MAX_KEYS: usize = 16;

/// The key of a descriptor that has the client's address. A limit per `ip` needs this key.
const ADDRESS: &str = "remote_address";

/// The limits for the descriptors that Envoy sends in its calls of the RateLimitService.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RateLimitService {
    /// The limits of each domain: a list of `{ match, limits }`. The first entry that matches a descriptor counts. Default: none.
    pub(crate) domains: Option<Named<Vec<Spanned<WrittenEntry>>, DomainName>>,
    /// Configurations of envoyproxy/ratelimit: paths, which may have `*`, such as ratelimit/*.yaml. Default: none.
    pub(crate) files: Option<Vec<Scalar<FilePath>>>,
}

/// Descriptors, and their limits.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "DescriptorMatch")]
pub(crate) struct WrittenEntry {
    /// The keys that a descriptor must have, and no others, each with its value. `*` is any value, and `foo*` any value that begins with
    /// foo.
    #[serde(rename = "match")]
    pub(crate) keys: Spanned<Named<Scalar<DescriptorValue>, DescriptorKey>>,
    /// The limits of the descriptor. With `[]` it is admitted without a charge.
    pub(crate) limits: Vec<Scalar<LimitName>>,
}

/// Adds the domains that the configuration lists to the domains of files. Returns the paths of the files, and all domains.
pub(super) fn domains(
    check: &mut Check<'_>,
    written: Option<&RateLimitService>,
    files: RatelimitFiles,
    rules: &Rules,
    indices: &HashMap<&str, usize>,
) -> (Vec<PathBuf>, Domains) {
    let mut domains = files.domains;
    let listed = written.and_then(|service| service.domains.as_ref());
    for (name, entries) in listed.into_iter().flat_map(|named| &named.0) {
        let list = list(check, entries, rules, indices);
        let place = name.place;
        let Some(DomainName(name)) = check.read(name) else {
            continue;
        };
        if let Some(first) = files.places.get(&name) {
            let problem = Problem::new(place, format!("the domain `{name}` is in a file, too"));
            check.refuse(problem.note(format!("the file has it at {first}")));
        }
        domains.add(&name, Domain::List(list));
    }
    (files.paths, domains)
}

/// Reads the entries of a domain. Refuses an entry that no descriptor reaches.
fn list(
    check: &mut Check<'_>,
    written: &[Spanned<WrittenEntry>],
    rules: &Rules,
    indices: &HashMap<&str, usize>,
) -> DomainList {
    let mut list = DomainList::default();
    let mut places: Vec<Option<Place>> = Vec::new();
    for entry in written {
        let place = entry.value.keys.place;
        let Some(entry) = read_entry(check, &entry.value, rules, indices) else {
            continue;
        };
        match list.add(entry) {
            Ok(()) => places.push(place),
            Err(earlier) => {
                let first = check.source.at(places.get(earlier).copied().flatten());
                let problem = Problem::new(place, "no descriptor reaches this entry");
                let problem = problem.note(format!(
                    "the entry at {first} matches all of its descriptors first"
                ));
                check.refuse(problem.note("put the narrower entry before the wider one"));
            }
        }
    }
    list
}

fn read_entry(
    check: &mut Check<'_>,
    written: &WrittenEntry,
    rules: &Rules,
    indices: &HashMap<&str, usize>,
) -> Option<Entry> {
    let WrittenEntry { keys, limits } = written;
    let place = keys.place;
    let written = &keys.value.0;
    if !(1..=MAX_KEYS).contains(&written.len()) {
        let problem = Problem::new(place, format!("`match` has {} keys", written.len()));
        check.refuse(problem.note(format!("allowed here: 1 to {MAX_KEYS} keys")));
    }
    let keys: Vec<_> = written
        .iter()
        .map(|(key, value)| (check.read(key), check.read(value)))
        .collect();
    let keys: Option<Vec<(Box<str>, ValuePattern)>> = keys
        .into_iter()
        .map(|(key, value)| Some((key?.0.into(), value?.0)))
        .collect();
    let keys = keys?;
    let mut seen = HashSet::new();
    let mut target = Target::default();
    for scalar in limits {
        let Some((name, rule)) = defined(check, scalar, rules) else {
            continue;
        };
        if let Some(rule) = rule {
            countable(check, scalar, rule, &keys);
        }
        target.rules.extend(indices.get(&*name));
        if !seen.insert(name) {
            let message = format!("this entry lists the limit `{}` twice", scalar.raw);
            check.refuse(Problem::new(scalar.place, message));
        }
    }
    if limits.len() > MAX_CHARGES {
        let message = format!("a descriptor would meet {} limits", limits.len());
        let problem = Problem::new(place, message);
        check.refuse(problem.note(format!("the most is {MAX_CHARGES}")));
    }
    Some(Entry::new(keys, target))
}

/// Refuses a limit that cannot be counted for a descriptor with these keys.
fn countable(
    check: &mut Check<'_>,
    scalar: &Scalar<LimitName>,
    rule: &Rule,
    keys: &[(Box<str>, ValuePattern)],
) {
    let name = &scalar.raw;
    let has = |name: &str| keys.iter().any(|(key, _)| **key == *name);
    let allowed = "allowed here: `per: [\"descriptor:NAME\"]` with keys of `match`, `ip`, and `[]`";
    for part in rule.per.iter() {
        let problem = |text: String| Problem::new(scalar.place, text);
        check.refuse(match part {
            Per::Descriptor(key) if !has(key) => {
                let text = format!("the limit `{name}` is counted per `{part}`");
                problem(text).note(format!("`match` has no key `{key}`: add it, such as `{key}: \"*\"`"))
            }
            Per::Ip if !has(ADDRESS) => {
                let text = format!("the limit `{name}` is counted per `ip`");
                problem(text).note(format!(
                    "`match` has no key `{ADDRESS}`, which has the address: add it, such as `{ADDRESS}: \"*\"`"
                ))
            }
            Per::Descriptor(_) | Per::Ip => continue,
            other => problem(format!(
                "the limit `{name}` is counted per `{other}`, which a descriptor does not have"
            ))
            .note(allowed),
        });
    }
    if rule.count.is_some() {
        let message = format!("the limit `{name}` charges by the status of an answer");
        let problem = Problem::new(scalar.place, message);
        check.refuse(problem.note("calls have no answers: list a limit without `count`"));
    }
}
