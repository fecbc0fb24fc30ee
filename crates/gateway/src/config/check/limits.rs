//! The limits: their algorithms and numbers, what they are counted per, and who lists them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{
    FixedWindow, LeakyBucket, Micros, Quota, QuotaError, SlidingWindowCounter, SlidingWindowLog,
    TokenBucket,
};
use tidegate_store::{Limit, Mode, OnFailure};
use tidegate_tower::{Per, Rule};

use super::Check;
use super::clients::IPV6_PREFIX;
use crate::config::file::{self, File, SingleOr};
use crate::config::report::{Place, Problem};
use crate::config::value::{Count, Leaf, LimitName, PrefixLength};

/// From this limit on, what an exact log keeps per client is worth a warning: 80 KB.
const LONG_LOG: u64 = 10_000;

/// The limits by name; none where the limit itself was refused.
pub(super) type Rules = HashMap<String, Option<Rule>>;

/// How limits are shared that do not say it themselves.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shared {
    pub(super) on_failure: OnFailure,
    pub(super) mode: Mode,
}

impl Check<'_> {
    /// All limits in the order of the file, and each by its name.
    pub(super) fn limits(&mut self, file: &File, shared: Shared) -> (Vec<Arc<Limit>>, Rules) {
        let in_memory = !matches!(&file.store, Some(SingleOr::Block(_)));
        let mut limits = Vec::new();
        let mut rules = Rules::new();
        for (name, limit) in file.limits.iter().flat_map(|limits| &limits.0) {
            let quota = self.quota(name, limit);
            let per = self.per(limit, file);
            let on_failure = self.read_some(limit.on_failure.as_ref());
            let mode = self.read_some(limit.mode.as_ref()).unwrap_or(shared.mode);
            if in_memory {
                self.without_effect(limit);
            }
            if let Some(quota) = &quota {
                self.mode_fits(name, limit, quota, mode);
            }
            let Some(LimitName(name)) = self.read(name) else {
                continue;
            };
            let rule = quota.map(|quota| {
                let on_failure = on_failure.unwrap_or(shared.on_failure);
                let limit = Limit::new(&name, quota, on_failure).in_mode(mode);
                let is_shared = !per.iter().any(Per::is_callers);
                let limit = Arc::new(if is_shared { limit.shared() } else { limit });
                limits.push(Arc::clone(&limit));
                Rule {
                    limit,
                    per: per.into(),
                }
            });
            rules.insert(name, rule);
        }
        (limits, rules)
    }

    /// Warns of limits that nothing is charged to.
    pub(super) fn unused_limits(&mut self, file: &File) {
        let always = file.always.iter().flatten();
        let routes = file.routes.iter().flat_map(|routes| &routes.value);
        let routes = routes.flat_map(|route| route.value.limits.iter().flatten());
        let used: HashSet<_> = always.chain(routes).map(|leaf| &leaf.raw).collect();
        for (name, _) in file.limits.iter().flat_map(|limits| &limits.0) {
            if !used.contains(&name.raw) {
                self.doubt(
                    Problem::new(
                        name.place,
                        format!("no route uses the limit `{}`", name.raw),
                    )
                    .note("list it under `limits` of a route, or under `always`"),
                );
            }
        }
    }

    /// Warns of what only matters with Redis.
    fn without_effect(&mut self, limit: &file::Limit) {
        if let Some(leaf) = &limit.on_failure {
            self.doubt(
                Problem::new(leaf.place, "`on_failure` has no effect here")
                    .note("with `store: memory` there is no store that could fail"),
            );
        }
        if let Some(leaf) = &limit.mode {
            self.doubt(
                Problem::new(leaf.place, "`mode` has no effect here")
                    .note("with `store: memory` nobody shares the limit with this gateway"),
            );
        }
    }

    /// Refuses a mode that the limit's algorithm cannot have.
    fn mode_fits(
        &mut self,
        name: &Leaf<LimitName>,
        limit: &file::Limit,
        quota: &Quota,
        mode: Mode,
    ) {
        let allowed: &[Mode] = match quota {
            Quota::FixedWindow(_) | Quota::SlidingWindowCounter(_) => return,
            Quota::TokenBucket(_) | Quota::SlidingWindowLog(_) => {
                &[Mode::Exact, Mode::Leased, Mode::Local]
            }
            // A slice of a queue would be a queue of its own.
            Quota::LeakyBucket(_) => &[Mode::Exact, Mode::Local],
        };
        if allowed.contains(&mode) {
            return;
        }
        let place = limit.mode.as_ref().map_or(name.place, |leaf| leaf.place);
        let message = format!("a `{}` cannot be {}", quota.algorithm(), mode.word());
        let mut problem = Problem::new(place, message);
        if limit.mode.is_none() {
            problem =
                problem.note("the store's `mode` is meant for all limits; this one needs its own");
        }
        let allowed: Vec<_> = allowed.iter().map(|mode| mode.word()).collect();
        self.refuse(problem.note(format!("allowed here: {}", allowed.join(", "))));
    }

    fn per(&mut self, limit: &file::Limit, file: &File) -> Vec<Per> {
        let Some(leaves) = &limit.per else {
            return vec![Per::Client];
        };
        let mut per = Vec::new();
        for leaf in leaves {
            let Some(part) = self.read(leaf) else {
                continue;
            };
            if per.contains(&part) {
                let problem = Problem::new(leaf.place, format!("`{}` is here twice", leaf.raw));
                self.refuse(problem);
            }
            self.wider(&part, file, leaf.place);
            let mut sources = file.clients.iter().flatten().map(|source| &source.value);
            let is_named = match part {
                Per::ApiKey => sources.any(|source| source.api_key.is_some()),
                Per::UserId => {
                    sources.any(|source| source.user_id.is_some() || source.jwt.is_some())
                }
                _ => true,
            };
            if !is_named {
                let message = format!("no client source names a `{}`", leaf.raw);
                self.doubt(
                    Problem::new(leaf.place, message)
                        .note("everybody is counted by address here; see `clients`"),
                );
            }
            per.push(part);
        }
        per
    }

    /// A network is wider than the addresses that clients are anyway.
    fn wider(&mut self, part: &Per, file: &File, place: Option<Place>) {
        let Per::Network(bits) = part else {
            return;
        };
        let mut sources = file.clients.iter().flatten();
        let leaf = sources.find_map(|source| source.value.ip.as_ref()?.ipv6_prefix.as_ref());
        let own = leaf.and_then(|leaf| self.read(leaf));
        let own = own.map_or(IPV6_PREFIX, |PrefixLength(own)| own);
        if *bits >= own {
            self.refuse(
                Problem::new(place, format!("`ip` is one client per /{own} already"))
                    .note(format!("allowed here: ip/1 to ip/{}", own - 1)),
            );
        }
    }

    fn quota(&mut self, name: &Leaf<LimitName>, limit: &file::Limit) -> Option<Quota> {
        let buckets = [
            limit.token_bucket.as_ref().map(Written::TokenBucket),
            limit.leaky_bucket.as_ref().map(Written::LeakyBucket),
        ];
        let windows = [
            (&limit.fixed_window, Kind::Fixed),
            (&limit.sliding_window_log, Kind::Log),
            (&limit.sliding_window_counter, Kind::Counter),
        ];
        let windows = windows.map(|(window, kind)| Some(Written::Window(window.as_ref()?, kind)));
        let mut written = buckets.into_iter().chain(windows).flatten();
        let (first, second) = (written.next(), written.next());
        let allowed = || {
            format!(
                "allowed here: exactly one of {}",
                Quota::ALGORITHMS.join(", ")
            )
        };
        match (first, second) {
            (Some(only), None) => self.numbers(&only),
            (None, _) => {
                let message = format!("the limit `{}` has no algorithm", name.raw);
                self.refuse(Problem::new(name.place, message).note(allowed()));
                None
            }
            (Some(_), Some(_)) => {
                let message = format!("the limit `{}` has more than one algorithm", name.raw);
                self.refuse(Problem::new(name.place, message).note(allowed()));
                None
            }
        }
    }

    fn numbers(&mut self, written: &Written<'_>) -> Option<Quota> {
        match *written {
            Written::TokenBucket(file::TokenBucket { capacity, refill }) => {
                let (count, rate) = (self.read(capacity), self.read(refill));
                let quota = TokenBucket::new(count?.0, rate?).map(Quota::from);
                self.fit(quota, capacity, refill.place)
            }
            Written::LeakyBucket(file::LeakyBucket { queue, drain }) => {
                let (count, rate) = (self.read(queue), self.read(drain));
                let quota = LeakyBucket::new(count?.0, rate?).map(Quota::from);
                self.fit(quota, queue, drain.place)
            }
            Written::Window(file::Window { limit, window }, kind) => {
                let (count, length) = (self.read(limit), self.read(window));
                let (count, length) = (count?.0, micros(length?));
                if kind == Kind::Log && count > LONG_LOG {
                    self.long_log(limit, count);
                }
                let quota = match kind {
                    Kind::Fixed => FixedWindow::new(count, length).map(Quota::from),
                    Kind::Log => SlidingWindowLog::new(count, length).map(Quota::from),
                    Kind::Counter => SlidingWindowCounter::new(count, length).map(Quota::from),
                };
                self.fit(quota, limit, window.place)
            }
        }
    }

    /// A quota, if its numbers fit together; else the number that does not is pointed at.
    fn fit(
        &mut self,
        quota: Result<Quota, QuotaError>,
        count: &Leaf<Count>,
        time: Option<Place>,
    ) -> Option<Quota> {
        let error = match quota {
            Ok(quota) => return Some(quota),
            Err(error) => error,
        };
        let place = match error {
            QuotaError::TooLarge { .. } => count.place,
            QuotaError::Zero(what) if !matches!(what, "window" | "rate") => count.place,
            _ => time,
        };
        self.refuse(Problem::new(place, error.to_string()));
        None
    }

    fn long_log(&mut self, limit: &Leaf<Count>, count: u64) {
        let kilobytes = count.saturating_mul(8) / 1_000;
        self.doubt(
            Problem::new(limit.place, "an exact log of this length is costly").note(format!(
                "every client may take {kilobytes} KB; sliding_window_counter takes a few bytes"
            )),
        );
    }
}

/// An algorithm with its numbers, as written.
enum Written<'a> {
    TokenBucket(&'a file::TokenBucket),
    LeakyBucket(&'a file::LeakyBucket),
    Window(&'a file::Window, Kind),
}

/// The algorithms that have a window.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fixed,
    Log,
    Counter,
}

/// A duration that was read fits: it is 31 days at most.
fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX)
}
