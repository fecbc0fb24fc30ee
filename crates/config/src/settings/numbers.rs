//! Other numbers for limits, which operators set while a gateway runs.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_store::Limit;
use tidegate_tower::Policy;

use super::Settings;

impl Settings {
    /// Gives limits other numbers, in the form of the configuration: pairs of a limit's name and its numbers. Plans with numbers of their
    /// own keep them. Returns each limit that cannot have its numbers, and the reason.
    pub fn set_numbers<'n>(
        &mut self,
        numbers: impl IntoIterator<Item = (&'n str, &'n str)>,
    ) -> Vec<(&'n str, String)> {
        let (mut changed, mut refused) = (HashMap::new(), Vec::new());
        for (name, text) in numbers {
            let limit = self.limits.iter_mut().find(|limit| limit.name() == name);
            match (limit, self.numbers.read(name, text)) {
                (Some(limit), Ok(Some(read))) => {
                    *limit = Arc::new(limit.with_quota(*read.quota()));
                    changed.insert(name, limit.clone());
                }
                (_, Ok(_)) => refused.push((name, format!("`{name}` cannot be unlimited"))),
                (_, Err(reason)) => refused.push((name, reason)),
            }
        }
        let routes = self.routes.iter_mut().map(|route| &mut route.policy);
        let doors = self.decisions.iter_mut().map(|it| &mut it.policy);
        for policy in routes.chain(doors).chain([&mut self.unmatched]) {
            change(policy, &changed);
        }
        refused
    }
}

fn change(policy: &mut Policy, changed: &HashMap<&str, Arc<Limit>>) {
    let limit_of = |limit: &Limit| changed.get(limit.name());
    if !policy
        .rules
        .iter()
        .any(|rule| limit_of(&rule.limit).is_some())
    {
        return;
    }
    let rules = policy.rules.iter().map(|rule| {
        let front = rule.front.as_ref();
        let shared = front.and_then(|front| Some(front.with_limit(limit_of(&front.limit)?)));
        match (limit_of(&rule.limit), shared) {
            (Some(limit), _) => rule.with_limit(limit),
            (None, Some(shared)) => rule.share_in(&shared).unwrap_or_else(|_| rule.clone()),
            (None, None) => rule.clone(),
        }
    });
    policy.rules = rules.collect();
}
