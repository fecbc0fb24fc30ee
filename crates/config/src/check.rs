//! From the file as written to the plan: every rule that a configuration must keep.
//!
//! All problems are collected, not only the first; a part with a problem is left out, and since a plan is made only if there is
//! none, nothing incomplete ever leaves.

mod access_log;
mod answers;
mod clients;
mod exposure;
mod fixed;
mod limits;
mod listen;
mod redis_tls;
mod routes;
mod server;
mod tls;
mod tracing;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use http::StatusCode;
use tidegate_tower::{Answers, Policy};

use super::file::File;
use super::plan::{Fixed, Plan};
use super::reading::Reading;
use super::value::{FilePath, Scalar, Value};
use tidegate_yaml::{ConfigError, MAX_PROBLEMS, Place, Problem, Source, Warning};
use tidegate_yaml::{Unfilled, Why, expand};

pub(super) use clients::keys;

/// Makes the plan, or says why there is none; a reload does not change what was fixed `before`.
pub(super) fn check(
    file: &File,
    source: &Source<'_>,
    env: &dyn Fn(&str) -> Option<String>,
    before: Option<&Fixed>,
) -> Result<(Plan, Vec<Warning>), ConfigError> {
    let mut check = Check::new(source, env);
    let plan = check.plan(file);
    if let (Some(plan), Some(before)) = (&plan, before) {
        check.unchanged(file, &plan.fixed, before);
    }
    match plan {
        Some(plan) if check.problems.is_empty() => Ok((plan, source.warn(check.warnings))),
        _ => Err(source.refuse(check.problems)),
    }
}

/// A check under way.
struct Check<'a> {
    source: &'a Source<'a>,
    env: &'a dyn Fn(&str) -> Option<String>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl<'a> Check<'a> {
    const fn new(source: &'a Source<'a>, env: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            source,
            env,
            problems: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

impl Check<'_> {
    /// The parts of a plan, in the order in which they need each other.
    fn plan(&mut self, file: &File) -> Option<Plan> {
        let (listen, admin) = self.addresses(file);
        let plans = self.plan_names(file);
        let callers = self.clients(file, &plans);
        let (store, shared) = self.store(file);
        let secret = self.secret(file, store.as_ref());
        let (limits, mut rules) = self.limits(file, shared);
        self.plans(file, &plans, &mut rules);
        self.exposure(file, &listen, admin.as_ref(), &rules);
        self.uncounted_gateways(file, &limits);
        let always = self.always(file, &rules);
        let answers = Answers::default();
        let answers = self.answers(file.headers.as_ref(), file.reject.as_ref(), &answers);
        let unmatched = Policy {
            route: "none".into(),
            always: always.len(),
            rules: always.into(),
            answers,
        };
        let no_route = file.unmatched.as_ref();
        let no_route = no_route.map(|answer| self.reject(answer, StatusCode::NOT_FOUND));
        let timeouts = self.timeouts(file);
        let routes = self.routes(file, &rules, &unmatched, &callers.clients, timeouts);
        self.unused_limits(file);
        self.unused_plans(file);
        let (admin, store, log) = (admin?, store?, self.log(file));
        let fixed = Fixed {
            store: self.fixed_store(file, &store),
            secret: secret.clone(),
            admin: admin.address,
            log: log.clone(),
        };
        Some(Plan {
            version: version(self.source.text()),
            fixed,
            listen,
            admin,
            clients: callers.clients,
            proxy_protocol: callers.proxy_protocol,
            key_files: callers.reread.key_files,
            jwks: callers.reread.jwks,
            store,
            secret,
            unmatched,
            no_route,
            limits,
            routes,
            timeouts,
            max_connections: self.max_connections(file),
            max_connections_per_ip: self.max_connections_per_ip(file),
            max_memory: self.max_memory(file),
            log,
            tracing: self.tracing(file),
        })
    }

    fn refuse(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    fn warn(&mut self, problem: Problem) {
        self.warnings.push(problem);
    }

    /// Refuses a name that is not defined, and says which are; `none` is said if there are none.
    fn undefined<'n, T>(
        &mut self,
        what: &str,
        scalar: &Scalar<T>,
        names: impl Iterator<Item = &'n String>,
        none: &str,
    ) {
        let mut problem =
            Problem::new(scalar.place, format!("there is no {what} `{}`", scalar.raw));
        // Thousands of names by thousands of mistakes would take a while, and are not told anyway.
        if self.problems.len() < MAX_PROBLEMS {
            let mut names: Vec<_> = names.collect();
            names.sort();
            problem = match names.as_slice() {
                [] => problem.note(none),
                names => problem.choices(&scalar.raw, names),
            };
        }
        self.refuse(problem);
    }

    /// A value, its variables filled in; none if it is refused, which is then told.
    fn read<T: Value>(&mut self, scalar: &Scalar<T>) -> Option<T> {
        let text = self.fill(scalar)?;
        if text.len() > T::MAX_BYTES {
            let problem = Problem::new(scalar.place, format!("{} is too long", T::WHAT));
            self.refuse(problem.note(format!("the longest has {} bytes", T::MAX_BYTES)));
            return None;
        }
        match T::read(&text) {
            Ok(value) => Some(value),
            Err(fault) => {
                let is_filled = matches!(text, Cow::Owned(_));
                self.refuse(fault.problem(scalar, is_filled));
                None
            }
        }
    }

    /// As [`read`](Self::read), for a value beside which secrets may stand: no line is shown.
    fn read_hidden<T: Value>(&mut self, scalar: &Scalar<T>) -> Option<T> {
        let before = self.problems.len();
        let value = self.read(scalar);
        let told = self.problems.split_off(before);
        self.problems
            .extend(told.into_iter().map(Problem::without_line));
        value
    }

    /// A value that may be left out; none also if it is refused.
    fn read_some<T: Value>(&mut self, scalar: Option<&Scalar<T>>) -> Option<T> {
        Reading::read_some(self, scalar)
    }

    /// A file, from the folder of the configuration that names it.
    pub(super) fn file(&mut self, scalar: &Scalar<FilePath>) -> Option<PathBuf> {
        let FilePath(path) = self.read(scalar)?;
        let folder = Path::new(self.source.name())
            .parent()
            .unwrap_or(Path::new(""));
        Some(folder.join(path))
    }

    fn fill<'l, T>(&mut self, scalar: &'l Scalar<T>) -> Option<Cow<'l, str>> {
        let unfilled = match expand(&scalar.raw, self.env) {
            Ok(text) => return Some(text),
            Err(unfilled) => unfilled,
        };
        let place = self.reference(&unfilled, scalar.place);
        self.refuse(match unfilled.why {
            Why::Unset(name) => Problem::new(
                place,
                format!("the environment variable `{name}` is not set"),
            )
            .note(format!("set it, or give a default: ${{{name}:-default}}")),
            Why::Long => Problem::new(place, "this value is too long with its variables filled in"),
            Why::Form => Problem::new(place, "this is not a variable")
                .note("allowed here: ${NAME}, ${NAME:-default}, or $${ for the characters ${"),
        });
        None
    }

    /// Where a variable stands inside of a value; where the value does, if it spans lines.
    fn reference(&self, unfilled: &Unfilled<'_>, place: Option<Place>) -> Option<Place> {
        let place = place?;
        let line: String = self
            .source
            .line(place.line)
            .chars()
            .skip(place.column - 1)
            .collect();
        let Some(at) = line.find(unfilled.reference) else {
            return Some(place);
        };
        Some(Place {
            line: place.line,
            column: place.column + line[..at].chars().count(),
            length: unfilled.reference.chars().count(),
        })
    }
}

impl Reading for Check<'_> {
    fn read<T: Value>(&mut self, scalar: &Scalar<T>) -> Option<T> {
        self.read(scalar)
    }

    fn read_hidden<T: Value>(&mut self, scalar: &Scalar<T>) -> Option<T> {
        self.read_hidden(scalar)
    }

    fn refuse(&mut self, problem: Problem) {
        self.refuse(problem);
    }
}

/// The same for the same text, in 16 hexadecimal digits.
fn version(text: &str) -> String {
    let digest = digest(&SHA256, text.as_bytes());
    let start = digest.as_ref().first_chunk();
    format!(
        "{:016x}",
        start.map_or(0, |start| u64::from_be_bytes(*start))
    )
}
