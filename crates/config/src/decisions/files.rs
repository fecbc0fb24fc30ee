//! `files` of `rate_limit_service`: configurations of envoyproxy/ratelimit, as they are.
//!
//! Each `rate_limit` becomes a limit with the same numbers. The limit is counted per each key whose values vary.

mod names;
mod written;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::yaml::{Place, Problem, Source, Spanned};
use glob::Pattern;
use tidegate_doors::{Domain, Domains, Node, Target};
use tidegate_store::Limit;
use tidegate_tower::{Per, Rule};

use crate::check::Check;
use crate::decisions::Decisions;
use crate::decisions::descriptor::DomainName;
use crate::limits::Rules;
use crate::store::StoreDefaults;
use crate::unknown;
use crate::value::word::FilePath;
use crate::value::{Scalar, Value};
use names::limit_name;
use written::{
    RatelimitFile, Replacement, WindowAlgorithm, WrittenDescriptor, WrittenRateLimit, quota,
};

/// The domains of the files.
#[derive(Debug, Default)]
pub(crate) struct RatelimitFiles {
    /// The trees of the files.
    pub(super) domains: Domains,
    /// For each domain, its file, line and column.
    pub(super) places: HashMap<String, String>,
    /// The paths of the files.
    pub(super) paths: Vec<PathBuf>,
    /// The texts of the files, one after the other.
    pub(crate) texts: String,
}

/// Reads the files. Adds their limits to `limits`, and the rules of the limits to `rules`.
pub(crate) fn read(
    check: &mut Check<'_>,
    written: Option<&Spanned<Decisions>>,
    shared: StoreDefaults,
    limits: &mut Vec<Arc<Limit>>,
    rules: &mut Rules,
) -> RatelimitFiles {
    let mut files = RatelimitFiles::default();
    let service = written.and_then(|written| written.value.rate_limit_service.as_ref());
    let patterns = service.and_then(|service| service.files.as_deref());
    let mut paths = BTreeSet::new();
    for scalar in patterns.unwrap_or_default() {
        paths.extend(matching(check, scalar));
    }
    check.files.extend(paths.iter().cloned());
    for path in paths {
        let name = path.display().to_string();
        let text = match crate::read_text(&path) {
            Ok(text) => text,
            Err(problem) => {
                check.errors_of_files.push(crate::refusal(&name, problem));
                continue;
            }
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        // The file may be no file of ratelimit, and hold secrets. So errors of the form hide the same lines as errors of a configuration.
        let source = Source::new(&name, text);
        let written: RatelimitFile = match crate::yaml::read(&source, |_, _| None) {
            Ok(written) => written,
            Err(problem) => {
                let schema = schemars::schema_for!(RatelimitFile).to_value();
                let problems = unknown::beside(problem, &source, &schema);
                check.errors_of_files.push(source.refuse(problems));
                continue;
            }
        };
        let source = Source::of_descriptors(&name, text);
        // In these files, `${NAME}` is text like any other.
        let mut reader = Reader {
            check: Check::new(&source, &|_| None),
            shared,
            limits,
            rules,
            ignored: BTreeSet::new(),
        };
        reader.domain(&written, &mut files);
        check.add_file(reader.check);
        files.texts += text;
        files.paths.push(path);
    }
    files
}

/// Returns the files whose paths match. A relative path starts at the folder of the configuration. Refuses a pattern without a file.
fn matching(check: &mut Check<'_>, scalar: &Scalar<FilePath>) -> Vec<PathBuf> {
    let Some(FilePath(path)) = check.read(scalar) else {
        return Vec::new();
    };
    let folder = Path::new(check.source.name).parent();
    let folder = Pattern::escape(&folder.unwrap_or(Path::new("")).display().to_string());
    let pattern = Path::new(&folder).join(path).display().to_string();
    let problem = match glob::glob(&pattern).map(Iterator::collect::<Result<Vec<_>, _>>) {
        Ok(Ok(paths)) if !paths.is_empty() => return paths,
        Ok(Ok(_)) => Problem::new(scalar.place, "there is no such file")
            .note(format!("no path is like {pattern}")),
        Ok(Err(error)) => Problem::new(scalar.place, "a folder of this path cannot be read")
            .note(error.to_string()),
        Err(error) => Problem::new(scalar.place, "this is not a pattern of paths").note(error.msg),
    };
    check.refuse(problem);
    Vec::new()
}

/// A check of one file.
struct Reader<'c> {
    check: Check<'c>,
    shared: StoreDefaults,
    limits: &'c mut Vec<Arc<Limit>>,
    rules: &'c mut Rules,
    /// The keys without an effect that have a warning already.
    ignored: BTreeSet<&'static str>,
}

/// An entry of a descriptor, in the path to a limit.
struct Level<'f> {
    key: &'f str,
    value: Option<&'f str>,
    /// Whether all values of a pattern count together, and the place of the key that sets it.
    share: Option<Option<Place>>,
}

impl Level<'_> {
    /// Whether each value of the key has a budget of its own.
    fn varies(&self) -> bool {
        self.share.is_none() && self.value.is_none_or(|value| value.contains('*'))
    }
}

impl Reader<'_> {
    /// Reads the domain of the file, and adds it to `files`.
    fn domain(&mut self, file: &RatelimitFile, files: &mut RatelimitFiles) {
        let mut root = Node::default();
        let descriptors = file.descriptors.as_deref().unwrap_or_default();
        self.children(&mut root, &file.domain.raw, descriptors, &mut Vec::new());
        let Some(DomainName(name)) = self.literal(&file.domain) else {
            return;
        };
        if let Some(first) = files.places.get(&name) {
            let problem = Problem::new(
                file.domain.place,
                format!("two files have the domain `{name}`"),
            );
            self.check
                .refuse(problem.note(format!("the first is at {first}")));
        }
        let place = self.check.source.at(file.domain.place);
        files.domains.add(&name, Domain::Tree(root));
        files.places.insert(name, place);
    }

    /// Reads a value as it is written, without variables.
    fn literal<T: Value>(&mut self, scalar: &Scalar<T>) -> Option<T> {
        let value = T::read(&scalar.raw);
        value
            .map_err(|fault| self.check.refuse(fault.problem(scalar, false)))
            .ok()
    }

    /// Reads a boolean that may be missing.
    fn is(&mut self, scalar: Option<&Scalar<bool>>) -> bool {
        let value = scalar.and_then(|scalar| self.literal(scalar));
        value.unwrap_or_default()
    }

    /// Adds descriptors to a node. `path` leads to the node.
    fn children<'f>(
        &mut self,
        node: &mut Node,
        domain: &str,
        written: &'f [Spanned<WrittenDescriptor>],
        path: &mut Vec<Level<'f>>,
    ) {
        let mut seen = HashMap::new();
        for Spanned { value: written, .. } in written {
            let place = written.key.place;
            let key = self.literal(&written.key).is_some();
            let level = self.level(written);
            let (name, value) = (level.key, level.value);
            path.push(level);
            let target = self.target(domain, written, path);
            let mut child = Node::new(target);
            let descriptors = written.descriptors.as_deref().unwrap_or_default();
            self.children(&mut child, domain, descriptors, path);
            path.pop();
            if let Some(first) = seen.insert((name, value), place)
                && key
            {
                let problem = Problem::new(place, "this key is here twice with the same value");
                self.check
                    .refuse(problem.first_at(self.check.source, first));
            }
            node.add(name, value, child);
        }
    }

    fn level<'f>(&mut self, written: &'f WrittenDescriptor) -> Level<'f> {
        let value = written.value.as_ref().map(|value| &*value.raw);
        // A text without characters counts as no value, as in ratelimit.
        let value = value.filter(|value| !value.is_empty());
        let shares = self.is(written.share_threshold.as_ref());
        let share = written.share_threshold.as_ref().filter(|_| shares);
        if let Some(scalar) = share
            && !value.is_some_and(|value| value.contains('*'))
        {
            let problem = Problem::new(scalar.place, "`share_threshold` has no effect here");
            self.check
                .refuse(problem.note("it needs a `value` with `*`, such as `files/*`"));
        }
        for (key, scalar) in [
            ("detailed_metric", &written.detailed_metric),
            ("value_to_metric", &written.value_to_metric),
        ] {
            if self.is(scalar.as_ref()) {
                let place = scalar.as_ref().and_then(|scalar| scalar.place);
                self.ignored(
                    key,
                    place,
                    "metrics have the name of the limit, and no values",
                );
            }
        }
        Level {
            key: &written.key.raw,
            value,
            share: share.map(|scalar| scalar.place),
        }
    }

    /// Warns of a key that does not change decisions, once per file.
    fn ignored(&mut self, key: &'static str, place: Option<Place>, note: &str) {
        if self.ignored.insert(key) {
            let problem = Problem::new(place, format!("`{key}` has no effect"));
            self.check.warn(problem.note(note));
        }
    }

    /// Reads the limit of a descriptor.
    fn target(
        &mut self,
        domain: &str,
        written: &WrittenDescriptor,
        path: &[Level<'_>],
    ) -> Option<Target> {
        let is_observed = self.is(written.shadow_mode.as_ref());
        let has_quota_mode = self.is(written.quota_mode.as_ref());
        let Spanned {
            value: limit,
            place,
        } = written.rate_limit.as_ref()?;
        if let Some(scalar) = written.quota_mode.as_ref().filter(|_| has_quota_mode) {
            let problem = Problem::new(scalar.place, "`quota_mode` is not supported");
            self.check.refuse(problem.note(
                "a call that meets several limits passes only if each of them admits it: remove the key, or write `shadow_mode: true`",
            ));
        }
        if let Some(metadata) = &written.metadata {
            let note = "answers have the metadata that the gateway makes";
            self.ignored("metadata", metadata.place, note);
        }
        let target = self.replacing(limit);
        if self.is(limit.unlimited.as_ref()) {
            if let Some(unit) = &limit.unit {
                let problem = Problem::new(unit.place, "an unlimited descriptor has no `unit`");
                self.check
                    .refuse(problem.note("remove `unit`, or `unlimited`"));
            }
            return Some(target);
        }
        let (Some(unit), Some(requests)) = (&limit.unit, &limit.requests_per_unit) else {
            let missing = match limit.unit {
                None => "unit",
                Some(_) => "requests_per_unit",
            };
            let message = format!("the key `{missing}` is missing here");
            let problem = Problem::new(*place, message);
            self.check
                .refuse(problem.note("a descriptor without a limit has `unlimited: true`"));
            return None;
        };
        let algorithm = match &limit.algorithm {
            Some(scalar) => self.literal(scalar),
            None => Some(WindowAlgorithm::default()),
        };
        let (unit, count) = (self.literal(unit), self.literal(requests));
        let per = self.per(path);
        let count = count?;
        if count.0 == 0 {
            return Some(Target {
                refuses: !is_observed,
                ..target
            });
        }
        let quota = quota(algorithm?, unit?, count);
        let quota = quota.map_err(|error| {
            let problem = Problem::new(requests.place, error.to_string());
            self.check.refuse(problem);
        });
        let quota = quota.ok()?;
        let mode = self.shared.mode;
        if !quota.modes().contains(&mode) {
            let scalar = limit.algorithm.as_ref();
            let place = scalar.map_or(*place, |scalar| scalar.place);
            let message = format!("a {} cannot be {}", quota.algorithm(), mode.word());
            let problem = Problem::new(place, message);
            self.check
                .refuse(problem.note("the `mode` of the store holds for the limits of this file"));
        }
        let name = limit_name(domain, path, self.rules);
        let mut limit = Limit::new(&name, quota, self.shared.on_failure)
            .in_mode(mode)
            .shared();
        if is_observed {
            limit = limit.observed();
        }
        let rule = Rule::new(limit, per);
        let index = self.limits.len();
        self.limits.push(Arc::clone(&rule.limit));
        self.rules.insert(name, Some(rule));
        Some(Target {
            rules: vec![index],
            ..target
        })
    }

    /// Reads the name of a limit, and the names of the limits that it replaces.
    fn replacing(&mut self, written: &WrittenRateLimit) -> Target {
        let name = written.name.as_ref().map(|name| &*name.raw);
        let name = name.filter(|name| !name.is_empty());
        let mut target = Target {
            name: name.map(Into::into),
            ..Target::default()
        };
        for Replacement { name: scalar } in written.replaces.iter().flatten() {
            let message = match &*scalar.raw {
                "" => "this name is empty",
                other if name == Some(other) => "a limit cannot replace itself",
                other => {
                    target.replaces.push(other.into());
                    continue;
                }
            };
            let problem = Problem::new(scalar.place, message);
            self.check
                .refuse(problem.note("`replaces` has the `name` of another limit"));
        }
        target
    }

    /// Returns the parts that a limit is counted per: the keys whose values vary.
    fn per(&mut self, path: &[Level<'_>]) -> Vec<Per> {
        let mut per = Vec::new();
        for level in path.iter().filter(|level| level.varies()) {
            let part = Per::Descriptor(level.key.into());
            if per.contains(&part) {
                continue;
            }
            per.push(part);
            let mut same = path.iter().filter(|other| other.key == level.key);
            if let Some(place) = same.find_map(|other| other.share) {
                let message = format!("`{}` has a level without `share_threshold`, too", level.key);
                let problem = Problem::new(place, message);
                self.check.refuse(problem.note(
                    "a limit is counted per all values of a key, or per none: set `share_threshold` at both levels, or rename a key",
                ));
            }
        }
        per
    }
}
