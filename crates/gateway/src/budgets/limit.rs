//! The budgets of one limit, for operators: of one key, which its values or its hash name, or of a page of keys.
//!
//! Budgets under the numbers of an override are in no such report, because a read needs the override's own numbers. `/clients/{name}` has
//! them.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tidegate_doors::Check;
use tidegate_identity::Caller;
use tidegate_status::client::Overridden;
use tidegate_status::limit::{LimitBudget, LimitReport, Windows};
use tidegate_store::{Charge, Counts, Cursor, Key, Limit, Outlook, StoreError};
use tidegate_tower::{Per, Policy, Rule};
use tokio::time::timeout;

use super::{Budgets, seconds, words};
use crate::request::values::{BadValues, Values};

/// The number of keys that are read from the store at a time.
const AT_ONCE: usize = 16;
/// The longest time in which the keys of one report are read.
const LONGEST: Duration = Duration::from_secs(5);

/// The reason why the budgets of a limit cannot be shown or reset.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoLimit {
    #[error("no limit is called `{0}`")]
    Unknown(String),
    #[error("the limit `{limit}` is not on the route `{route}`")]
    Route { limit: String, route: String },
    #[error(transparent)]
    Values(#[from] BadValues),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The name of a key in a question.
#[derive(Debug)]
pub(crate) enum KeyName {
    /// The values of a request.
    Values(Check),
    /// The hashes of these values.
    Hash(Key),
}

/// A budget of a limit.
struct Budget<'a> {
    limit: Arc<Limit>,
    key: Key,
    route: Option<&'a str>,
}

/// The budgets that a question is about, and the budgets that a reset clears: all budgets under the same keys.
struct Found<'a> {
    rule: &'a Rule,
    shown: Vec<Budget<'a>>,
    all: Vec<(Arc<Limit>, Key)>,
}

impl Budgets {
    /// Returns the current budgets of a limit. Charges no unit.
    pub(crate) async fn show_limit(
        &self,
        name: &str,
        key: &KeyName,
    ) -> Result<LimitReport, NoLimit> {
        let Found { rule, shown, .. } = self.limit_budgets(name, key)?;
        Ok(self.limit_report(rule, shown, None).await?)
    }

    /// Resets budgets of a limit, under all plans and overrides. Returns the budgets after the reset.
    pub(crate) async fn reset_limit(
        &self,
        name: &str,
        key: &KeyName,
    ) -> Result<LimitReport, NoLimit> {
        let Found { rule, shown, all } = self.limit_budgets(name, key)?;
        let charges = all.iter().map(|(limit, key)| charge(limit, *key));
        self.store.reset(&charges.collect::<Vec<_>>()).await?;
        Ok(self.limit_report(rule, shown, None).await?)
    }

    /// Returns the budgets of some keys of a limit, and the cursor of the next keys.
    pub(crate) async fn limit_keys(
        &self,
        name: &str,
        from: Cursor,
    ) -> Result<LimitReport, NoLimit> {
        let rule = self.rule_of(name)?;
        let limits: Vec<_> = rule.configured().cloned().collect();
        let page = self.store.keys(&limits, from).await?;
        let budgets = page.keys.into_iter().map(|(limit, key)| Budget {
            limit,
            key,
            route: None,
        });
        let report = self.limit_report(rule, budgets.collect(), page.next);
        Ok(report.await?)
    }

    /// Returns the override that gives a limit other numbers.
    fn overridden(&self, name: &str) -> Option<Overridden> {
        let numbers = self.numbers.get(name)?;
        Some(Overridden {
            by: format!("limit:{name}"),
            does: format!("set {name} '{numbers}'"),
        })
    }

    /// Returns the rules of a limit, each with its policy.
    fn rules_of(&self, name: &str) -> impl Iterator<Item = (&Policy, &Rule)> {
        let policies = self.policies.iter();
        let rules = policies.flat_map(|policy| policy.rules.iter().map(move |rule| (policy, rule)));
        rules.filter(move |(_, rule)| rule.limit.name() == name && rule.front.is_none())
    }

    fn rule_of(&self, name: &str) -> Result<&Rule, NoLimit> {
        let rule = self.rules_of(name).next();
        rule.map(|(_, rule)| rule)
            .ok_or_else(|| NoLimit::Unknown(name.to_owned()))
    }

    fn limit_budgets(&self, name: &str, key: &KeyName) -> Result<Found<'_>, NoLimit> {
        let rule = self.rule_of(name)?;
        match key {
            KeyName::Hash(key) => Ok(Found {
                rule,
                shown: under(rule.configured().cloned(), *key, None).collect(),
                all: rule.budgets().map(|limit| (limit, *key)).collect(),
            }),
            KeyName::Values(check) => self.budgets_of_values(name, rule, check),
        }
    }

    fn budgets_of_values<'a>(
        &'a self,
        name: &str,
        first: &'a Rule,
        check: &Check,
    ) -> Result<Found<'a>, NoLimit> {
        let values = Values::read(check)?;
        // The operator's address is no value of the question.
        let nobody = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let mut caller = values.caller(&self.clients, check, nobody)?;
        self.overrides.apply(&mut caller);
        // Without a route in the question, all budgets of a limit that is counted per route are shown.
        values.suffice(first, &caller, check, true)?;
        let request = values.request()?;
        let mut budgets = Found {
            rule: first,
            shown: Vec::new(),
            all: Vec::new(),
        };
        let mut seen = HashSet::new();
        for (policy, rule) in self.rules_of(name) {
            let is_other = check.route.as_ref().is_some_and(|it| **it != *policy.route);
            let route = rule.per.contains(&Per::Route).then_some(&*policy.route);
            if is_other || !seen.insert(route) {
                continue;
            }
            let key = self.key_of(rule, policy, &caller, &request);
            budgets.all.extend(rule.budgets().map(|limit| (limit, key)));
            let limits = variants(rule, &caller, check);
            budgets.shown.extend(under(limits, key, route));
        }
        match &check.route {
            Some(route) if budgets.all.is_empty() => Err(NoLimit::Route {
                limit: name.to_owned(),
                route: route.to_string(),
            }),
            _ => Ok(budgets),
        }
    }

    /// Reads a budget from the store.
    async fn read(&self, budget: Budget<'_>) -> Result<Option<LimitBudget>, StoreError> {
        let charge = charge(&budget.limit, budget.key);
        let outlooks = self.store.peek(std::slice::from_ref(&charge)).await?;
        // After the outlook, which has dropped lapsed holds.
        let counts = self.store.counts(&charge).await?;
        let outlook = outlooks.first();
        Ok(outlook.map(|outlook| entry(&budget, outlook, counts)))
    }

    /// Reads budgets from the store.
    async fn limit_report(
        &self,
        rule: &Rule,
        budgets: Vec<Budget<'_>>,
        next: Option<Cursor>,
    ) -> Result<LimitReport, StoreError> {
        let reads: Vec<_> = budgets.into_iter().map(|it| self.read(it)).collect();
        let reads = stream::iter(reads).buffered(AT_ONCE).try_collect();
        let read = timeout(LONGEST, reads).await;
        let read: Vec<_> = read.unwrap_or(Err(StoreError::Timeout))?;
        Ok(LimitReport {
            limit: rule.limit.name().to_owned(),
            algorithm: rule.limit.quota().algorithm().to_owned(),
            per: words(&rule.per),
            overridden: self.overridden(rule.limit.name()),
            budgets: read.into_iter().flatten().collect(),
            next: next.map(|next| next.to_string()),
        })
    }
}

/// Returns the variants of a limit that a question is about: the variant of the caller's plan or override, or all configured variants if
/// the question names no caller.
fn variants(rule: &Rule, caller: &Caller, check: &Check) -> Vec<Arc<Limit>> {
    match check.client.is_none() && check.per.is_empty() {
        true => rule.configured().cloned().collect(),
        false => rule
            .limit_for(caller.plan.as_ref())
            .into_iter()
            .cloned()
            .collect(),
    }
}

/// Returns the budgets of these limits under one key.
fn under<'a>(
    limits: impl IntoIterator<Item = Arc<Limit>>,
    key: Key,
    route: Option<&'a str>,
) -> impl Iterator<Item = Budget<'a>> {
    let limits = limits.into_iter();
    limits.map(move |limit| Budget { limit, key, route })
}

const fn charge(limit: &Limit, key: Key) -> Charge<'_> {
    Charge {
        limit,
        key,
        cost: 1,
        origin: None,
    }
}

fn entry(budget: &Budget<'_>, outlook: &Outlook, counts: Counts) -> LimitBudget {
    let (limit, verdict) = (&budget.limit, &outlook.verdict);
    let capacity = limit.quota().capacity();
    LimitBudget {
        key: budget.key.text(),
        route: budget.route.map(str::to_owned),
        plan: limit.plan().map(str::to_owned),
        limit: capacity,
        used: capacity.saturating_sub(verdict.remaining + counts.held),
        held: counts.held,
        remaining: verdict.remaining,
        reset: seconds(outlook.now + verdict.reset),
        retry_after: seconds(verdict.retry_after),
        this_gateway_only: outlook.here,
        windows: windows(limit, outlook.now, &counts),
    }
}

/// Returns the counts per window, and the rate of both windows: the sum that the algorithm compares with the limit.
fn windows(limit: &Limit, now: u64, counts: &Counts) -> Option<Windows> {
    let pair = counts.windows?;
    let counter = limit.quota().counter().filter(|it| it.has_previous);
    let share = counter.map_or(0, |counter| {
        let left = (pair.start + counter.window).saturating_sub(now);
        let share = u128::from(pair.previous) * u128::from(left.min(counter.window));
        u64::try_from(share.div_ceil(u128::from(counter.window))).unwrap_or(u64::MAX)
    });
    Some(Windows {
        start_ms: pair.start / 1_000,
        current: pair.current,
        previous: counter.map(|_| pair.previous),
        rate: pair.current.saturating_add(share),
    })
}
