//! Makes questions of the limits, the client and the values that a check names.

use std::net::IpAddr;

use tidegate_doors::{Check, MAX_COST, MAX_HOLD};
use tidegate_store::MAX_CHARGES;
use tidegate_tower::{Question, QuestionPart, Rule};

use super::Doors;
use super::bad_check::BadCheck;
use super::judgement::Subject;
use crate::request::values::Values;
use crate::stack::Stack;

/// A question that is ready to be decided.
#[derive(Debug)]
pub(super) struct Ready<'a> {
    pub(super) subject: Subject<'a>,
    pub(super) question: Question,
}

impl Doors {
    /// Makes the question of a check.
    pub(super) fn question<'a>(
        &'a self,
        stack: &'a Stack,
        check: &Check,
        asker: IpAddr,
    ) -> Result<Ready<'a>, BadCheck> {
        let ready = self.looking(stack, check, asker)?;
        let parts = ready.question.parts.iter();
        let rules = &ready.subject.limits.policy().rules;
        let mut rules = parts.map(|part| &rules[part.rule]);
        if check.hold.is_none() {
            // A place is held until the request ends, so a check without a hold would be admitted in vain.
            let running = rules.find(|rule| rule.limit.quota().lease().is_some());
            return match running {
                Some(rule) => Err(BadCheck::NeedsHold(rule.limit.name().into())),
                None => Ok(ready),
            };
        }
        match rules.any(Rule::can_hold) {
            true => Ok(ready),
            false => Err(BadCheck::NoHold),
        }
    }

    /// Makes the question of a check without a charge.
    pub(super) fn looking<'a>(
        &'a self,
        stack: &'a Stack,
        check: &Check,
        asker: IpAddr,
    ) -> Result<Ready<'a>, BadCheck> {
        let (subject, rules) = self.subject(stack, check)?;
        let values = Values::read(check)?;
        let caller = values.caller(&stack.clients, check, asker)?;
        if check
            .cost
            .is_some_and(|cost| !(1..=MAX_COST).contains(&cost))
        {
            return Err(BadCheck::Cost);
        }
        if check
            .hold
            .is_some_and(|hold| !(1..=MAX_HOLD).contains(&hold))
        {
            return Err(BadCheck::Hold);
        }
        let all = &subject.limits.policy().rules;
        for rule in rules.iter().map(|index| &all[*index]) {
            values.suffice(rule, &caller, check, subject.route.is_some())?;
        }
        let request = values.request()?;
        let parts = rules.into_iter().map(|rule| QuestionPart {
            rule,
            caller: None,
            request: request.clone(),
            cost: check.cost,
            limit: None,
        });
        let question = Question {
            caller,
            parts: parts.collect(),
            holds: check.hold.is_some(),
        };
        Ok(Ready { subject, question })
    }

    /// Returns the limits that a check is about, and the indices of their rules.
    fn subject<'a>(
        &'a self,
        stack: &'a Stack,
        check: &Check,
    ) -> Result<(Subject<'a>, Vec<usize>), BadCheck> {
        if let Some(name) = &check.route {
            if !check.limits.is_empty() {
                return Err(BadCheck::Subject);
            }
            let route = stack.routes.find_value(|route| *route.name == **name);
            let route = route.ok_or_else(|| BadCheck::Route((&**name).into()))?;
            let metrics = route
                .doors
                .as_ref()
                .map_or(&self.checks, |doors| &doors.check);
            let subject = Subject {
                limits: &route.limits,
                route: Some(&route.name),
                metrics,
            };
            let rules = route.limits.policy().rules.iter().enumerate();
            // A question charges the limits alone, without the shares of their members.
            let rules = rules.filter(|(_, rule)| rule.front.is_none());
            return Ok((subject, rules.map(|(at, _)| at).collect()));
        }
        match check.limits.len() {
            0 => return Err(BadCheck::Subject),
            count if count > MAX_CHARGES => return Err(BadCheck::TooManyLimits),
            _ => {}
        }
        let mut rules = Vec::with_capacity(check.limits.len());
        for name in &check.limits {
            let rule = self.names.get(name);
            let rule = *rule.ok_or_else(|| BadCheck::Limit((&**name).into()))?;
            if rules.contains(&rule) {
                return Err(BadCheck::Twice((&**name).into()));
            }
            rules.push(rule);
        }
        let subject = Subject {
            limits: &self.limits,
            route: None,
            metrics: &self.checks,
        };
        Ok((subject, rules))
    }
}
