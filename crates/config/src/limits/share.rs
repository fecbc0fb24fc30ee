//! `share`: the division of a shared limit among its members, and the weights of plans.

use std::collections::HashMap;
use std::sync::Arc;

use crate::yaml::Problem;
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_core::{Quota, QuotaError};
use tidegate_store::{Limit, Mode};
use tidegate_tower::{Action, Per, Rule};

use super::{Rules, WrittenLimit, parts};
use crate::check::Check;
use crate::clients::WrittenClients;
use crate::limits::plans::filled;
use crate::shape::Named;
use crate::value::Scalar;
use crate::value::word::choice;

/// The members of a shared limit, and their weights.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Share")]
pub(crate) struct WrittenShare {
    /// The parts of a request whose values are the members, such as `[client]`.
    pub(crate) by: Vec<Scalar<Per>>,
    /// The source of the members' weights: plan. Default: all members have the weight 1.
    pub(crate) weight: Option<Scalar<ByPlan>>,
}

/// The word `plan`: a plan has the weight of its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByPlan;

choice!(ByPlan, "Weight", "a source of weights", [("plan", ByPlan)]);

/// Adds the share of its members to each shared limit that has `share`. Returns the limits of the shares.
pub(crate) fn shares(
    check: &mut Check<'_>,
    written: Option<&Named<WrittenLimit>>,
    clients: WrittenClients<'_>,
    claims: &[Arc<str>],
    weights: &HashMap<String, Vec<u64>>,
    in_memory: bool,
    rules: &mut Rules,
) -> Vec<Arc<Limit>> {
    let mut shares = Vec::new();
    for (name, limit) in written.into_iter().flat_map(|limits| &limits.0) {
        let Some(share) = &limit.share else {
            continue;
        };
        let by = parts(check, &share.value.by, clients, claims);
        let weight = check.read_some(share.value.weight.as_ref());
        let Some(Some(rule)) = filled(check, name).and_then(|name| rules.get_mut(&*name)) else {
            continue;
        };
        if by.is_empty() {
            let problem = Problem::new(share.place, "`share` has no members");
            check.refuse(problem.note("name the members: `by: [client]`"));
            continue;
        }
        if let Some(reason) = unfit(rule, limit, &by, in_memory) {
            let message = format!("this limit cannot have `share`: {reason}");
            check.refuse(Problem::new(share.place, message));
            continue;
        }
        let none = Vec::new();
        let weights = weights.get(rule.limit.name()).unwrap_or(&none);
        if weight.is_none() && weights.iter().any(|weight| *weight != 1) {
            let message = format!("plans give weights to the members of `{}`", name.raw);
            let problem = Problem::new(share.place, message);
            check.refuse(problem.note("write `share: { by: […], weight: plan }`"));
        }
        if !by.iter().any(Per::is_callers) {
            let problem = Problem::new(share.place, "no part under `by` identifies a client");
            check.warn(problem.note(
                "a caller with many values gets many shares: write `by: [client]`, or a claim of a verified token",
            ));
        }
        match rule.share_of_members(by, weights) {
            Ok(members) => {
                shares.push(members.limit.clone());
                rule.share = Some(Arc::new(members));
            }
            Err(error) => {
                let problem = Problem::new(share.place, "this limit cannot have `share`");
                check.refuse(match error {
                    QuotaError::LongWindow => problem.note("it must refill within 31d"),
                    error => problem.note(error.to_string()),
                });
            }
        }
    }
    shares
}

/// Returns the reason why a limit cannot be shared fairly, if there is one.
fn unfit(rule: &Rule, limit: &WrittenLimit, by: &[Per], in_memory: bool) -> Option<String> {
    let quota = rule.limit.quota();
    if !quota.is_paced() {
        return Some("only a token_bucket or a leaky_bucket refills at a constant rate".into());
    }
    if by.iter().any(|per| matches!(per, Per::Json(_))) {
        return Some("a member is a client, and not a name in a body".into());
    }
    if !in_memory && rule.limit.mode() != Mode::Exact {
        return Some("its `mode` must be exact".into());
    }
    if limit.block.is_some() {
        return Some("with `block`, one member would keep out all others".into());
    }
    if matches!(rule.action, Action::Delay { .. }) {
        return Some("with `action: delay`, requests wait in one queue".into());
    }
    let own: Vec<_> = rule.per.iter().filter(|per| per.is_callers()).collect();
    if by.iter().all(|part| own.contains(&part)) {
        return Some("each member has a budget of its own by `per`".into());
    }
    None
}

/// Returns whether the share's numbers exist for this quota, for numbers that are set at run time.
pub(crate) fn divides(rule: &Rule, quota: Quota) -> Result<(), String> {
    let Some(members) = &rule.share else {
        return Ok(());
    };
    let shared = rule.with_limit(&Arc::new(rule.limit.with_quota(quota)));
    members
        .share_in(&shared)
        .map(drop)
        .map_err(|error| error.to_string())
}
