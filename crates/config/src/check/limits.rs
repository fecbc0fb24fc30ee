//! The limits: what they are counted per, what plans make of them, and who lists them.

mod action;
mod cost;
pub(crate) mod plans;
mod quota;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tidegate_core::{Block, Micros, Quota, micros};
use tidegate_store::{Limit, Mode, OnFailure};
use tidegate_tower::{Per, Rule};

use super::clients::IPV6_PREFIX;
use crate::check::limits::action::{action, count, has_nodelay, reserves_fit};
use crate::check::limits::cost::cost;
use crate::check::limits::quota::quota;
use crate::file::{self, File, SingleOr};
use crate::reading::Check;
use crate::value::{LimitName, PrefixLength, Scalar};
use action::reserving;
use quota::WrittenQuota;
use tidegate_yaml::{Place, Problem};

/// How long a reservation lasts that its gateway does not renew, in us: so long is charged what a gateway that died had
/// under way.
const RESERVED: Micros = 10_000_000;

/// The limits by name; none where the limit itself was refused.
pub(super) type Rules = HashMap<String, Option<Rule>>;

/// How limits are shared that do not say it themselves.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StoreDefaults {
    pub(super) on_failure: OnFailure,
    pub(super) mode: Mode,
}

/// All limits in the order of the file, and each by its name.
pub(crate) fn limits(
    check: &mut Check<'_>,
    file: &File,
    shared: StoreDefaults,
) -> (Vec<Arc<Limit>>, Rules) {
    let in_memory = !matches!(&file.store, Some(SingleOr::Block(_)));
    let mut limits = Vec::new();
    let mut rules = Rules::new();
    for (name, limit) in file.limits.iter().flat_map(|limits| &limits.0) {
        let reserves = reserving(limit).is_some();
        let written = WrittenQuota::of_limit(limit);
        let whose = format!("the limit `{}`", name.raw);
        let quota = quota(check, &whose, name.place, written);
        let per = per(check, limit, file);
        let on_failure = check.read_some(limit.on_failure.as_ref());
        let mode = check.read_some(limit.mode.as_ref()).unwrap_or(shared.mode);
        if in_memory {
            without_effect(check, limit);
        }
        let cost = cost(check, limit, quota.as_ref(), file);
        let action = action(check, limit, quota.as_ref());
        let count = count(check, limit);
        let nodelay = has_nodelay(check, limit.leaky_bucket.as_ref());
        let block = block(check, limit, mode);
        if let Some(quota) = &quota {
            mode_fits(check, name, limit, quota, mode);
            reserves_fit(check, name, limit, quota, mode);
        }
        let Some(LimitName(name)) = check.read(name) else {
            continue;
        };
        let rule = quota.map(|quota| {
            let on_failure = on_failure.unwrap_or(shared.on_failure);
            let mut limit = Limit::new(&name, quota, on_failure).in_mode(mode);
            if let Some(block) = block {
                limit = limit.blocking(block);
            }
            if !per.iter().any(Per::is_callers) {
                limit = limit.shared();
            }
            if action.observes {
                limit = limit.observed();
            }
            if reserves {
                limit = limit.reserving(RESERVED);
            }
            let limit = Arc::new(limit);
            limits.push(Arc::clone(&limit));
            Rule {
                cost: cost.unwrap_or_default(),
                action: action.of_refused,
                count,
                nodelay,
                ..Rule::new(limit, per)
            }
        });
        rules.insert(name, rule);
    }
    (limits, rules)
}

/// Warns of limits that nothing is charged to.
pub(crate) fn unused_limits(check: &mut Check<'_>, file: &File) {
    let always = file.always.iter().flatten();
    let routes = file.routes.iter().flat_map(|routes| &routes.value);
    let routes = routes.flat_map(|route| route.value.limits.iter().flatten());
    let used: HashSet<_> = always.chain(routes).map(|scalar| &scalar.raw).collect();
    for (name, _) in file.limits.iter().flat_map(|limits| &limits.0) {
        if !used.contains(&name.raw) {
            check.warn(
                Problem::new(
                    name.place,
                    format!("no route uses the limit `{}`", name.raw),
                )
                .note("list it under `limits` of a route, or under `always`"),
            );
        }
    }
}

/// What becomes of a key once the limit was exceeded.
fn block(check: &mut Check<'_>, limit: &file::Limit, mode: Mode) -> Option<Block> {
    let span = check.read_some(limit.block.as_ref());
    let extend = check.read_some(limit.extend.as_ref()).unwrap_or_default();
    let Some(scalar) = &limit.block else {
        if let Some(scalar) = &limit.extend {
            let problem = Problem::new(scalar.place, "there is no `block` to extend");
            check.refuse(problem.note("add `block: 30m`, or remove `extend`"));
        }
        return None;
    };
    if matches!(mode, Mode::Leased | Mode::Synced) {
        let message = format!("a limit that is {} cannot block", mode.word());
        let problem = Problem::new(scalar.place, message);
        check.refuse(problem.note("all gateways must know a block at once: write `mode: exact`"));
    }
    Some(Block {
        span: micros(span?),
        extend,
    })
}

/// Warns of what only matters with Redis.
fn without_effect(check: &mut Check<'_>, limit: &file::Limit) {
    if let Some(scalar) = &limit.on_failure {
        check.warn(
            Problem::new(scalar.place, "`on_failure` has no effect here")
                .note("with `store: memory` the store cannot fail"),
        );
    }
    if let Some(scalar) = &limit.mode {
        check.warn(
            Problem::new(scalar.place, "`mode` has no effect here")
                .note("with `store: memory` no other gateway shares the limit"),
        );
    }
}

/// Refuses a mode that the limit's algorithm cannot have.
fn mode_fits(
    check: &mut Check<'_>,
    name: &Scalar<LimitName>,
    limit: &file::Limit,
    quota: &Quota,
    mode: Mode,
) {
    let allowed = quota.modes();
    if allowed.contains(&mode) {
        return;
    }
    let place = limit
        .mode
        .as_ref()
        .map_or(name.place, |scalar| scalar.place);
    let what = match quota.calendar() {
        Some(_) => "window of days or months",
        None => quota.algorithm(),
    };
    let message = format!("a {what} cannot be {}", mode.word());
    let mut problem = Problem::new(place, message);
    if limit.mode.is_none() {
        problem =
            problem.note("the store's `mode` is meant for all limits; this one needs its own");
    }
    let allowed: Vec<_> = allowed.iter().map(|mode| mode.word()).collect();
    check.refuse(problem.note(format!("allowed here: {}", allowed.join(", "))));
}

fn per(check: &mut Check<'_>, limit: &file::Limit, file: &File) -> Vec<Per> {
    let Some(scalars) = &limit.per else {
        return vec![Per::Client];
    };
    let mut per = Vec::new();
    for scalar in scalars {
        let Some(part) = check.read(scalar) else {
            continue;
        };
        if per.contains(&part) {
            let problem = Problem::new(scalar.place, format!("`{}` is here twice", scalar.raw));
            check.refuse(problem);
        }
        wider(check, &part, file, scalar.place);
        let mut sources = file.clients.iter().flatten().map(|source| &source.value);
        let is_named = match part {
            Per::ApiKey => sources.any(|source| source.api_key.is_some()),
            Per::UserId => sources.any(|source| source.user_id.is_some() || source.jwt.is_some()),
            _ => true,
        };
        if !is_named {
            let message = format!("no client source names a `{}`", scalar.raw);
            check.warn(
                Problem::new(scalar.place, message)
                    .note("every client is counted by address here; see `clients`"),
            );
        }
        per.push(part);
    }
    per
}

/// A network is wider than the addresses that clients are anyway.
fn wider(check: &mut Check<'_>, part: &Per, file: &File, place: Option<Place>) {
    let Per::Network(bits) = part else {
        return;
    };
    let mut sources = file.clients.iter().flatten();
    let scalar = sources.find_map(|source| source.value.ip.as_ref()?.ipv6_prefix.as_ref());
    let own = scalar.and_then(|scalar| check.read(scalar));
    let own = own.map_or(IPV6_PREFIX, |PrefixLength(own)| own);
    if *bits >= own {
        check.refuse(
            Problem::new(place, format!("`ip` is one client per /{own} already"))
                .note(format!("allowed here: ip/1 to ip/{}", own - 1)),
        );
    }
}
