//! The settings that determine the keys of each limit. If these settings change, the limit gets new keys, and clients have its full quota
//! again.
//!
//! A reload compares the old and the new settings, and logs each limit whose clients get the full quota. `tidegate check --running` lists
//! these limits before a reload.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_tower::{Per, Policy, Rule};

use tidegate_config::Settings;

/// The settings that determine one limit's keys, in addition to the limit's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LimitKeys {
    /// The limit's name.
    pub(crate) limit: String,
    /// The algorithm, with its window in microseconds or its calendar period.
    kind: String,
    /// The value of `per`, as in YAML.
    per: Vec<String>,
    /// The number of leading bits of an IPv6 address in a key. `None` if the limit does not count addresses.
    ipv6_prefix: Option<u8>,
    /// The routes that list the limit. Empty if the limit does not count per route.
    routes: Vec<String>,
    /// The plans with numbers of their own for this limit. Clients of such a plan have separate budgets.
    #[serde(default)]
    plans: Vec<String>,
}

/// A limit whose clients get the full quota again after a reload, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The limit's name.
    pub(crate) limit: String,
    /// The reason, as text.
    pub(crate) why: String,
    /// The plan whose clients get the full quota again; `None` if all clients do.
    pub(crate) plan: Option<String>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, why, plan } = self;
        let whom = plan
            .as_ref()
            .map(|plan| format!(" of the plan `{plan}`"))
            .unwrap_or_default();
        write!(
            f,
            "limit `{limit}` anew, so that clients{whom} have its full quota again: {why}"
        )
    }
}

impl LimitKeys {
    /// Returns an entry for each limit that charges requests under `settings`, including requests without a route.
    pub(crate) fn of(settings: &Settings) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        let routes = settings.routes.iter().map(|route| &route.policy);
        let decisions = settings.decisions.as_ref().map(|it| &it.policy);
        for policy in routes.chain([&settings.unmatched]).chain(decisions) {
            for rule in policy.rules.iter() {
                let entry = all.iter_mut().find(|keys| keys.limit == rule.limit.name());
                match entry {
                    Some(keys) => keys.add_route(rule, policy),
                    None => all.push(Self::new(rule, policy, settings)),
                }
            }
        }
        all
    }

    fn new(rule: &Rule, policy: &Policy, settings: &Settings) -> Self {
        let has_address = rule.per.contains(&Per::Client) || rule.per.contains(&Per::Ip);
        let plans = settings.plans.iter().filter(|it| rule.has_budget_for(it));
        let mut keys = Self {
            limit: rule.limit.name().to_owned(),
            kind: rule.limit.quota().kind(),
            per: rule.per.iter().map(Per::to_string).collect(),
            ipv6_prefix: has_address.then_some(settings.clients.ipv6_prefix),
            routes: Vec::new(),
            plans: plans.map(|plan| plan.name().to_owned()).collect(),
        };
        keys.add_route(rule, policy);
        keys
    }

    fn add_route(&mut self, rule: &Rule, policy: &Policy) {
        if rule.per.contains(&Per::Route) {
            self.routes.push((*policy.route).to_owned());
        }
    }

    /// Returns the reason why this limit loses the state that it has under `before`; `None` if it keeps the state.
    fn differs(&self, before: &Self) -> Option<String> {
        if self.kind != before.kind {
            let (old, new) = (readable(&before.kind), readable(&self.kind));
            return Some(format!("{old} becomes {new}"));
        }
        if self.per != before.per {
            let (old, new) = (before.per.join(", "), self.per.join(", "));
            return Some(format!("`per: [{old}]` becomes `per: [{new}]`"));
        }
        if let (Some(old), Some(new)) = (before.ipv6_prefix, self.ipv6_prefix)
            && old != new
        {
            return Some(format!("IPv6 clients count by /{new} and not by /{old}"));
        }
        // If routes are only removed or only added, the budgets of the remaining routes stay.
        match (
            missing(&before.routes, &self.routes),
            missing(&self.routes, &before.routes),
        ) {
            (Some(old), Some(new)) => Some(format!("route `{old}` is replaced by `{new}`")),
            _ => None,
        }
    }

    /// Returns the plans whose clients lose the limit's state, each with the reason.
    fn differs_for_plans(&self, before: &Self) -> Vec<(String, String)> {
        let mut differing = Vec::new();
        for (plans, others, no) in [
            (&self.plans, &before.plans, ""),
            (&before.plans, &self.plans, "no "),
        ] {
            for plan in plans.iter().filter(|plan| !others.contains(plan)) {
                let why = format!("the plan has {no}numbers of its own now");
                differing.push((plan.clone(), why));
            }
        }
        differing
    }
}

/// Returns the limits that exist before and after a reload, and that lose their state.
pub(crate) fn changes(before: &[LimitKeys], after: &[LimitKeys]) -> Vec<Change> {
    let mut changes = Vec::new();
    for now in after {
        let Some(then) = before.iter().find(|then| then.limit == now.limit) else {
            continue;
        };
        let mut add = |plan, why| {
            let limit = now.limit.clone();
            changes.push(Change { limit, why, plan });
        };
        match now.differs(then) {
            Some(why) => add(None, why),
            None => {
                for (plan, why) in now.differs_for_plans(then) {
                    add(Some(plan), why);
                }
            }
        }
    }
    changes
}

/// Returns the first name that is not among `others`.
fn missing<'n>(names: &'n [String], others: &[String]) -> Option<&'n String> {
    names.iter().find(|name| !others.contains(name))
}

/// Formats an algorithm and its window as in YAML: `fixed_window` of 12h.
fn readable(kind: &str) -> String {
    let Some((algorithm, window)) = kind.split_once('/') else {
        return format!("`{kind}`");
    };
    let micros = window.parse().map(Duration::from_micros);
    let window = micros.map_or_else(
        |_| window.to_owned(),
        |window| humantime::format_duration(window).to_string(),
    );
    format!("`{algorithm}` of {window}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(kind: &str, per: &[&str], routes: &[&str]) -> LimitKeys {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        LimitKeys {
            limit: "daily".to_owned(),
            kind: kind.to_owned(),
            per: texts(per),
            ipv6_prefix: per.contains(&"client").then_some(64),
            routes: texts(routes),
            plans: Vec::new(),
        }
    }

    fn why(before: &LimitKeys, after: &LimitKeys) -> Option<String> {
        let mut changes = changes(std::slice::from_ref(before), std::slice::from_ref(after));
        changes.pop().map(|change| change.why)
    }

    #[test]
    fn whatever_is_a_part_of_the_key_is_reported() {
        let before = keys("fixed_window/86400000000", &["client"], &[]);
        assert_eq!(why(&before, &before), None);
        let window = keys("fixed_window/43200000000", &["client"], &[]);
        assert_eq!(
            why(&before, &window).unwrap(),
            "`fixed_window` of 1day becomes `fixed_window` of 12h"
        );
        let zone = keys("calendar_window/1d Asia/Tokyo", &["client"], &[]);
        assert_eq!(
            why(&before, &zone).unwrap(),
            "`fixed_window` of 1day becomes `calendar_window` of 1d Asia/Tokyo"
        );
        let bucket = keys("token_bucket", &["client"], &[]);
        assert!(why(&before, &bucket).unwrap().contains("`token_bucket`"));
        let shared = keys("fixed_window/86400000000", &[], &[]);
        assert_eq!(
            why(&before, &shared).unwrap(),
            "`per: [client]` becomes `per: []`"
        );
        let mut wider = before.clone();
        wider.ipv6_prefix = Some(56);
        assert_eq!(
            why(&before, &wider).unwrap(),
            "IPv6 clients count by /56 and not by /64"
        );
    }

    #[test]
    fn a_plan_that_gets_or_loses_numbers_is_reported() {
        let before = keys("token_bucket", &["client"], &[]);
        let mut after = before.clone();
        after.plans = ["gold", "silver"].map(str::to_owned).to_vec();
        let texts = |before: &LimitKeys, after: &LimitKeys| {
            let changes = super::changes(std::slice::from_ref(before), std::slice::from_ref(after));
            changes.iter().map(Change::to_string).collect::<Vec<_>>()
        };
        let text = |plan, why| {
            format!(
                "limit `daily` anew, so that clients of the plan `{plan}` have its full quota again: the plan has {why}numbers of its own now"
            )
        };
        assert_eq!(
            texts(&before, &after),
            [text("gold", ""), text("silver", "")]
        );
        assert_eq!(
            texts(&after, &before),
            [text("gold", "no "), text("silver", "no ")]
        );
        assert_eq!(super::changes(&[after.clone()], &[after]), []);
    }

    #[test]
    fn a_route_that_takes_the_place_of_another_is_reported() {
        let per = &["client", "route"];
        let routes = |names| keys("token_bucket", per, names);
        let before = routes(&["a", "b"]);
        for same in [&["a", "b"][..], &["a"], &["b", "a", "c"]] {
            assert_eq!(why(&before, &routes(same)), None, "{same:?}");
        }
        let why = why(&before, &routes(&["a", "c"])).unwrap();
        assert_eq!(why, "route `b` is replaced by `c`");
    }
}
