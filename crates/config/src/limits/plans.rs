//! `plans`: quotas that replace the limits' own quotas for groups of clients. A plan cannot change a limit's algorithm or window.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::yaml::{BlockOr, Problem, Spanned, expand};
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_core::{Concurrency, Quota};
use tidegate_identity::{ClientPlans, PlanMembers};
use tidegate_store::Limit;
use tidegate_tower::Rule;

use crate::access::list::{KnownClients, Purpose, entries, twice};
use crate::check::Check;
use crate::clients::WrittenClients;
use crate::limits::bucket::has_nodelay;
use crate::limits::cost::fits;
use crate::limits::numbers::Numbers;
use crate::limits::quota::{algorithms, quota};
use crate::limits::units::at_least_1;
use crate::limits::{Rules, WrittenLimit, defined};
use crate::shape::{Named, SingleOr};
use crate::value::client::ListedText;
use crate::value::number::Count;
use crate::value::word::LimitName;
use crate::value::{Fault, Scalar, Value};

/// The plans as they are written. Each plan maps names of limits to quotas, and the key `members` to a list.
pub(crate) type Plans = Named<Named<WrittenQuota>>;

/// The value of a key in a plan: `unlimited` or a quota; for the key `members`, a list.
pub(crate) type WrittenQuota = SingleOr<Unlimited, BlockOr<PlanQuota, Scalar<ListedText>>>;

/// The highest weight of a plan.
const HIGHEST_WEIGHT: u64 = 1_000;

/// The only key of a plan that is not the name of a limit.
const MEMBERS: &str = "members";

macro_rules! plan_quota {
    ($($(#[$doc:meta])* $key:ident: $numbers:ty,)*) => {
        /// A plan's quota for a limit: the algorithm and window that the limit has, with other numbers.
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
        pub(crate) struct PlanQuota {
            $(
                /// The limit's algorithm, with the plan's numbers.
                pub(crate) $key: Option<$numbers>,
            )*
            /// The weight of the plan's members in a limit with `share: { weight: plan }`, in place of an algorithm.
            pub(crate) weight: Option<Scalar<Count>>,
        }

        impl PlanQuota {
            /// Returns the numbers of each algorithm that the plan's quota has. A valid quota has exactly one algorithm.
            fn algorithms(&self) -> Vec<&dyn Numbers> {
                let all = [$(self.$key.as_ref().map(|numbers| numbers as &dyn Numbers)),*];
                all.into_iter().flatten().collect()
            }
        }
    };
}

algorithms!(plan_quota);

/// The word `unlimited`: the plan has no quota for the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unlimited;

impl Value for Unlimited {
    const NAME: &'static str = "Unlimited";
    const WHAT: &'static str = "a plan's quota";
    const ALLOWED: &'static str = "unlimited, or the limit's algorithm with other numbers";

    fn read(text: &str) -> Result<Self, Fault> {
        (text == "unlimited").then_some(Self).ok_or(Fault::Form)
    }
}

/// Returns the plans, in the order of the file.
pub(crate) fn plan_names(check: &mut Check<'_>, written: Option<&Plans>) -> ClientPlans {
    let written = written.into_iter().flat_map(|plans| &plans.0);
    let names: Vec<String> = written
        .filter_map(|(name, _)| check.read(name))
        .map(|LimitName(name)| name)
        .collect();
    ClientPlans::new(names)
}

/// Returns a name with its variables filled in. Does not report errors, because the code that reads the name reports them.
pub(super) fn filled<'l, T>(check: &Check<'_>, name: &'l Scalar<T>) -> Option<Cow<'l, str>> {
    expand(&name.raw, check.env).ok()
}

/// Adds the quotas of all plans to the rules of the limits. Returns the weights of the plans, by limit.
pub(crate) fn plans(
    check: &mut Check<'_>,
    written: Option<&Plans>,
    plans: &ClientPlans,
    limits: Option<&Named<WrittenLimit>>,
    rules: &mut Rules,
) -> HashMap<String, Vec<u64>> {
    let mut weights: HashMap<String, Vec<u64>> = HashMap::new();
    let mut changed: HashMap<String, Vec<Option<Arc<Limit>>>> = HashMap::new();
    for (plan, quotas) in written.into_iter().flat_map(|plans| &plans.0) {
        let plan = filled(check, plan).and_then(|plan| plans.called(&plan));
        for (scalar, written) in quotas.0.iter().filter(|(key, _)| key.raw != MEMBERS) {
            let Some((name, Some(rule))) = defined(check, scalar, rules) else {
                continue;
            };
            let mut all = limits.into_iter().flat_map(|limits| &limits.0);
            let itself = all.find(|(limit, _)| limit.raw == scalar.raw);
            let has_share = itself.is_some_and(|(_, limit)| limit.share.is_some());
            if let Some(weight) = weight(check, written, scalar, has_share) {
                if let Some(plan) = &plan {
                    let same = || vec![1; plans.iter().len()];
                    weights.entry(name).or_insert_with(same)[plan.index()] = weight;
                }
                continue;
            }
            let quota = plan_quota(check, "a plan", scalar, written, rule, limits);
            if has_share && matches!(quota, Some(Some(_))) {
                let problem = Problem::new(scalar.place, "all members share one budget");
                check
                    .refuse(problem.note("a plan may give its members a `weight`, or `unlimited`"));
            }
            if let (Some(quota), Some(plan)) = (quota, &plan) {
                let limit = limit_with(rule, quota, |limit| limit.of_plan(plan.name()));
                let same = || vec![Some(rule.limit.clone()); plans.iter().len()];
                changed.entry(name).or_insert_with(same)[plan.index()] = limit;
            }
        }
    }
    for (name, of_limit) in changed {
        if let Some(Some(rule)) = rules.get_mut(&name) {
            rule.plans = of_limit.into();
        }
    }
    weights
}

/// Reads the members of all plans. Refuses a member of two plans.
pub(crate) fn members(
    check: &mut Check<'_>,
    written: Option<&Plans>,
    plans: &ClientPlans,
    sources: &KnownClients,
) -> PlanMembers {
    let mut seen = HashMap::new();
    let mut members = Vec::new();
    for (name, quotas) in written.into_iter().flat_map(|plans| &plans.0) {
        let plan = filled(check, name).and_then(|plan| plans.called(&plan));
        let mut lists = quotas.0.iter().filter(|(key, _)| key.raw == MEMBERS);
        let Some((key, list)) = lists.next() else {
            continue;
        };
        let Some(list) = listed(list) else {
            let problem = Problem::new(key.place, "the members of a plan are a list");
            let example = "allowed here: members: [10.0.0.0/8, user_id:42]; a limit of this name has no numbers in plans";
            check.refuse(problem.note(example));
            continue;
        };
        for (member, place) in entries(check, list, sources, Purpose::Members) {
            if let Some(first) = seen.insert(member.clone(), place) {
                twice(check, place, first);
            }
            members.extend(plan.clone().map(|plan| (member, plan)));
        }
    }
    PlanMembers::new(members)
}

/// Returns the members in a value, if it is a list.
fn listed(written: &WrittenQuota) -> Option<&[Scalar<ListedText>]> {
    match written {
        SingleOr::Block(Spanned {
            value: BlockOr::List(list),
            ..
        }) => Some(list),
        SingleOr::Block(_) | SingleOr::Single(_) => None,
    }
}

/// Warns of plans that no client has, and of a `plan_claim` if no plan is defined.
pub(crate) fn unused_plans(
    check: &mut Check<'_>,
    written: Option<&Plans>,
    clients: WrittenClients<'_>,
) {
    let sources = || clients.sources.iter().map(|source| &source.value);
    let claim = sources().find_map(|source| source.jwt.as_ref()?.plan_claim.as_ref());
    let plans = || written.into_iter().flat_map(|plans| &plans.0);
    if let Some(scalar) = claim.filter(|_| plans().next().is_none()) {
        let problem = Problem::new(scalar.place, "`plan_claim` has no effect here");
        check.warn(problem.note("no plan is defined; define plans under `plans`"));
    }
    let keys = sources().filter_map(|source| source.api_key.as_ref());
    // A token or a key file may name any plan later, so no plan is reported as unused.
    if claim.is_some() || keys.clone().any(|source| source.keys_file.is_some()) {
        return;
    }
    let keys = keys.flat_map(|source| source.keys.iter().flatten());
    let given: HashSet<_> = keys
        .filter_map(|key| filled(check, key.value.plan.as_ref()?))
        .collect();
    for (name, quotas) in plans() {
        let mut lists = quotas.0.iter().filter(|(key, _)| key.raw == MEMBERS);
        if let Some(plan) = filled(check, name)
            && !given.contains(&plan)
            && !lists.any(|(_, list)| listed(list).is_some_and(|list| !list.is_empty()))
        {
            let message = format!("no client has the plan `{plan}`");
            let note = "a listed API key gets one by `plan`, a token's user by `plan_claim`, networks and users by `members`";
            check.warn(Problem::new(name.place, message).note(note));
        }
    }
}

/// Reads the weight that a plan gives the members of a limit. `None` if the plan gives no weight.
fn weight(
    check: &mut Check<'_>,
    written: &WrittenQuota,
    limit: &Scalar<LimitName>,
    has_share: bool,
) -> Option<u64> {
    let SingleOr::Block(Spanned {
        value:
            BlockOr::Block(PlanQuota {
                weight: Some(scalar),
                ..
            }),
        ..
    }) = written
    else {
        return None;
    };
    let weight = weight_of(check, scalar).unwrap_or(1);
    if !has_share {
        let problem = Problem::new(scalar.place, format!("`{}` has no `share`", limit.raw));
        check.refuse(problem.note("only a limit with `share` divides by weights"));
    }
    Some(weight)
}

fn weight_of(check: &mut Check<'_>, scalar: &Scalar<Count>) -> Option<u64> {
    let weight = at_least_1(check, scalar, "weight")?;
    if weight > HIGHEST_WEIGHT {
        let problem = Problem::new(scalar.place, "`weight` is too large");
        check.refuse(problem.note(format!("allowed here: 1 to {HIGHEST_WEIGHT}")));
        return None;
    }
    Some(weight)
}

/// Returns the rule's limit with this quota, changed by `with`. If the quota equals the limit's own quota, returns the unchanged limit. If
/// `quota` is `None`, returns `None`: the client is unlimited.
fn limit_with(
    rule: &Rule,
    quota: Option<Quota>,
    with: impl FnOnce(Limit) -> Limit,
) -> Option<Arc<Limit>> {
    let quota = quota?;
    Some(match quota == *rule.limit.quota() {
        true => rule.limit.clone(),
        false => Arc::new(with(rule.limit.with_quota(quota))),
    })
}

/// Reads the quota that a plan or an override gives for a limit. `what` is "a plan" or "an override", for messages. `Some(None)` means
/// unlimited. `None` means that the numbers were refused.
pub(crate) fn plan_quota(
    check: &mut Check<'_>,
    what: &str,
    name: &Scalar<LimitName>,
    written: &WrittenQuota,
    rule: &Rule,
    limits: Option<&Named<WrittenLimit>>,
) -> Option<Option<Quota>> {
    let block = match written {
        SingleOr::Single(word) => return check.read(word).map(|Unlimited| None),
        SingleOr::Block(block) => block,
    };
    let BlockOr::Block(numbers) = &block.value else {
        let problem = Problem::new(block.place, "a list is no plan's quota");
        check.refuse(problem.note(format!("allowed here: {}", Unlimited::ALLOWED)));
        return None;
    };
    let written = numbers.algorithms();
    let whose = format!("the plan's quota for `{}`", name.raw);
    let own = rule.limit.quota();
    let quota = quota(check, &whose, block.place, &written)?;
    if quota.kind() == own.kind() {
        let quota = no_more(check, what, numbers, quota, rule)?;
        let place = written.iter().find_map(|numbers| numbers.places().0);
        fits(check, &rule.cost, &quota, place);
        return Some(Some(quota));
    }
    let is_fixed = |quota: &Quota| !quota.is_gradual() && quota.lease().is_none();
    let same_algorithm = quota.algorithm() == own.algorithm() || is_fixed(&quota) && is_fixed(own);
    let (place, other) = if same_algorithm {
        let window = written.iter().find_map(|numbers| numbers.places().1);
        (window, "window")
    } else {
        (block.place, "algorithm")
    };
    let message = format!("{what} can change numbers, but not the {other}");
    let note = "a limit has one algorithm and window under all plans";
    let mut problem = Problem::new(place, message).note(note);
    let mut limits = limits.into_iter().flat_map(|limits| &limits.0);
    let itself = limits.find(|(limit, _)| limit.raw == name.raw);
    if let Some((limit, _)) = itself {
        let at = check.source.at(limit.place);
        problem = problem.note(format!("the limit itself is at {at}"));
    }
    check.refuse(problem);
    None
}

/// Returns a plan's quota. Refuses a `nodelay` or a `lease` that differs from the value in the limit. If the plan has no `lease`, its quota
/// gets the limit's `lease`.
fn no_more(
    check: &mut Check<'_>,
    what: &str,
    plan: &PlanQuota,
    quota: Quota,
    rule: &Rule,
) -> Option<Quota> {
    let bucket = plan.leaky_bucket.as_ref();
    let nodelay = bucket.and_then(|bucket| bucket.nodelay.as_ref());
    let lease = plan.concurrency.as_ref();
    let lease = lease.and_then(|places| places.lease.as_ref());
    let own_lease = rule.limit.quota().lease();
    let (changed, other, place) = if quota.is_queue() {
        let is_other = nodelay.is_some() && has_nodelay(check, bucket) != rule.nodelay;
        (is_other, "nodelay", nodelay.and_then(|scalar| scalar.place))
    } else if let Some(own_lease) = own_lease {
        if lease.is_none() {
            let of_own_lease = Concurrency::new(quota.capacity(), own_lease);
            return of_own_lease.ok().map(Quota::from);
        }
        let is_other = quota.lease() != Some(own_lease);
        (is_other, "lease", lease.and_then(|scalar| scalar.place))
    } else {
        return Some(quota);
    };
    if !changed {
        return Some(quota);
    }
    let message = format!("{what} can change numbers, but not `{other}`");
    let note = "remove it: all plans use the value of the limit";
    check.refuse(Problem::new(place, message).note(note));
    None
}
