//! Decides questions of other programs.

use std::time::Duration;

use tidegate_core::{HoldId, Micros, Verdict};
use tidegate_identity::{AccessVerdict, Caller, ClientPlan};
use tidegate_store::{
    Charge, Decision, Key, LocalView, Mode, OnFailure, Origin, Outcome, Outlook, PerCharge, Source,
    Store, Verdicts, Via,
};

use tokio::time::timeout;

use super::Enforced;
use crate::assessment::{admit, denied_address};
use crate::charges::{RuleCharge, RuleCharges};
use crate::in_flight::Reservation;
use crate::question::{HeldUnits, Judged, Question, QuestionPart};
use crate::{Decided, Hasher, Oversized};

/// The charges of a question, and for each part the index of its charge.
type PartCharges<'a> = (RuleCharges<'a>, PerCharge<Option<usize>>);

/// The budget that a part of a question charges.
struct PartBudget {
    key: Key,
    origin: Option<Origin>,
    /// Whether the caller is exempt from the part's limit.
    is_exempt: bool,
}

impl Enforced {
    /// Decides a question: charges all its parts, or none.
    pub(super) async fn judge(&self, question: Question, within: Option<Duration>) -> Judged {
        let mut admission = self.admission(question.caller.address().into());
        admission.within = within;
        let (holds, count) = (question.holds, question.parts.len());
        let (parts, budgets, mut decided, plan) = self.assess_question(question);
        let (held, verdicts) = match self.part_charges(&mut decided, plan.as_ref(), &parts, budgets)
        {
            Some((charges, indices)) => {
                let reply = match &self.store {
                    Store::Memory(memory) => admission.ask_at_once(memory, &charges),
                    // Boxed, so that the future of a decision in memory is small.
                    Store::Redis(_) => Box::pin(admission.ask(&charges)).await,
                };
                let client = &decided.client;
                self.events
                    .look(&charges, &reply.decision, client, plan.as_ref());
                decided.decide(reply.decision);
                let held = reply.reservation.and_then(Reservation::into_holds);
                (held, indices)
            }
            None => (None, PerCharge::from_elem(None, count)),
        };
        decided.plan = plan;
        Judged {
            decided,
            // Without a later settlement, the hold ends here, with the reserved units as its cost.
            held: held.map(HeldUnits::new).filter(|_| holds),
            verdicts,
            limits: parts.into_iter().map(|part| part.limit).collect(),
        }
    }

    /// Returns the decision that a question would get now. Charges no unit.
    pub(super) async fn look(&self, question: Question, within: Option<Duration>) -> Judged {
        let count = question.parts.len();
        let (parts, budgets, mut decided, plan) = self.assess_question(question);
        let verdicts = match self.part_charges(&mut decided, plan.as_ref(), &parts, budgets) {
            Some((rule_charges, indices)) => {
                let charges: PerCharge<Charge<'_>> =
                    rule_charges.iter().map(RuleCharge::charge).collect();
                let peek = Box::pin(self.store.peek(&charges));
                let outlooks = match within {
                    Some(within) => timeout(within, peek).await.ok().and_then(Result::ok),
                    None => peek.await.ok(),
                };
                let decision = match outlooks {
                    Some(outlooks) => outlook(&charges, &outlooks),
                    None => outlook_here(&charges, &self.store.peek_here(&charges)),
                };
                decided.decide(decision);
                indices
            }
            None => PerCharge::from_elem(None, count),
        };
        decided.plan = plan;
        Judged {
            decided,
            held: None,
            verdicts,
            limits: parts.into_iter().map(|part| part.limit).collect(),
        }
    }

    /// Applies access lists and overrides to the caller of a question, and finds the budget of each part.
    fn assess_question(
        &self,
        question: Question,
    ) -> (
        Vec<QuestionPart>,
        Vec<PartBudget>,
        Box<Decided>,
        Option<ClientPlan>,
    ) {
        let Question {
            mut caller, parts, ..
        } = question;
        let table = self.overrides.table.load();
        let table = table.as_deref().map(|table| &**table);
        let in_force = table.map(|table| (&self.overrides, table));
        let mut access = admit(&self.policy, in_force, &mut caller, || false);
        if let Some(entry) = denied_address(&self.policy, table, &caller) {
            access = Some(Box::new(AccessVerdict::Denied(entry)));
        }
        let budgets = parts.iter().map(|part| {
            let counted = part.caller.as_ref().unwrap_or(&caller);
            let rule = &self.policy.rules[part.rule];
            PartBudget {
                key: self.hasher.key(rule, &self.policy, counted, &part.request),
                origin: Hasher::origin(rule, counted),
                is_exempt: self.is_exempt(access.as_deref(), &caller, part.rule),
            }
        });
        let budgets = budgets.collect();
        let plan = caller.plan.take();
        let mut decided = Decided::of(caller, &self.policy);
        decided.access = access;
        (parts, budgets, decided, plan)
    }

    /// Whether a caller is exempt from the rule with this index. A policy of questions may have more rules than a verdict has bits.
    fn is_exempt(&self, verdict: Option<&AccessVerdict>, caller: &Caller, rule: usize) -> bool {
        let lists = self.policy.access.as_ref();
        verdict.is_some_and(|it| it.exempts(rule))
            || lists.is_some_and(|lists| lists.exempts(caller, rule).is_some())
    }

    /// Returns the charges of a question's parts. Parts with the same budget are one charge, with the sum of their costs. `None` without charges: the caller is denied, a cost can never be admitted, or no limit applies.
    fn part_charges<'a>(
        &'a self,
        decided: &mut Decided,
        plan: Option<&'a ClientPlan>,
        parts: &'a [QuestionPart],
        budgets: Vec<PartBudget>,
    ) -> Option<PartCharges<'a>> {
        if decided.denied_by().is_some() {
            return None;
        }
        let is_refused = decided.refused.is_some();
        let mut charges = RuleCharges::new();
        let mut indices = PerCharge::new();
        for (part, budget) in parts.iter().zip(budgets) {
            let rule = &self.policy.rules[part.rule];
            let applies = !budget.is_exempt && (!is_refused || part.rule < self.policy.always);
            let limit = part.limit.as_ref().or(rule.limit_for(plan));
            let limit = limit.filter(|_| applies);
            let Some(limit) = limit else {
                indices.push(None);
                continue;
            };
            let cost = part.cost.or(rule.cost.at_first()).unwrap_or(1);
            let same = |it: &RuleCharge<'_>| it.limit.id() == limit.id() && it.key == budget.key;
            let index = match charges.iter().position(same) {
                Some(index) => {
                    charges[index].cost = charges[index].cost.saturating_add(cost);
                    index
                }
                None => {
                    charges.push(RuleCharge {
                        index: part.rule,
                        rule,
                        limit,
                        key: budget.key,
                        cost,
                        origin: budget.origin,
                    });
                    charges.len() - 1
                }
            };
            indices.push(Some(index));
        }
        self.fit(decided, &mut charges, &mut indices)?;
        for charge in &charges {
            decided.charged.push(charge.index);
            decided.costs.push(charge.cost);
            decided.cost = decided.cost.max(charge.cost);
        }
        (!charges.is_empty()).then_some((charges, indices))
    }

    /// Removes charges of observed limits that can never admit their cost. `None` if an enforced limit can never admit a cost.
    fn fit(
        &self,
        decided: &mut Decided,
        charges: &mut RuleCharges<'_>,
        indices: &mut PerCharge<Option<usize>>,
    ) -> Option<()> {
        let is_oversized = |it: &RuleCharge<'_>| it.cost > it.limit.quota().capacity();
        while let Some(at) = charges.iter().position(is_oversized) {
            let charge = charges.remove(at);
            if !charge.limit.is_observed() {
                let (index, cost) = (charge.index, charge.cost);
                decided.oversized = Some(Oversized { index, cost });
                return None;
            }
            for index in indices.iter_mut() {
                *index = match *index {
                    Some(index) if index == at => None,
                    Some(index) if index > at => Some(index - 1),
                    other => other,
                };
            }
        }
        Some(())
    }
}

/// Returns the decision on charges that would get these outlooks.
fn outlook(charges: &[Charge<'_>], outlooks: &[Outlook]) -> Decision {
    let verdicts = outlooks.iter().map(|outlook| Some(outlook.verdict));
    let now = outlooks.iter().map(|outlook| outlook.now).max();
    uncharged(charges, verdicts.collect(), now, Via::Store)
}

/// Returns the decision on charges while the store does not answer, by the `on_failure` of each limit.
fn outlook_here(charges: &[Charge<'_>], views: &[LocalView]) -> Decision {
    let verdicts = charges.iter().zip(views).map(|(charge, view)| {
        let by_count =
            charge.limit.on_failure() == OnFailure::Local || charge.limit.mode() == Mode::Local;
        by_count.then_some(view.outlook.verdict)
    });
    let now = views.iter().map(|view| view.outlook.now).max();
    let mut decision = uncharged(charges, verdicts.collect(), now, Via::Fallback);
    let is_closed = |charge: &Charge<'_>| {
        charge.limit.on_failure() == OnFailure::Closed && charge.limit.mode() != Mode::Local
    };
    if decision.outcome == Outcome::Admitted && charges.iter().any(is_closed) {
        decision.outcome = Outcome::Unavailable;
    }
    decision
}

/// Makes a decision with these verdicts and without charges.
fn uncharged(
    charges: &[Charge<'_>],
    verdicts: Verdicts,
    now: Option<Micros>,
    via: Via,
) -> Decision {
    let refuses = |(charge, verdict): (&Charge<'_>, &Option<Verdict>)| {
        !charge.limit.is_observed() && verdict.is_some_and(|it| !it.allowed)
    };
    let outcome = match charges.iter().zip(&verdicts).any(refuses) {
        true => Outcome::Refused,
        false => Outcome::Admitted,
    };
    let now = now.unwrap_or_default();
    let source = Source {
        at: now,
        here: false,
        hold: HoldId(0),
    };
    Decision {
        outcome,
        via,
        now,
        sources: verdicts.iter().map(|_| source).collect(),
        verdicts,
        call: None,
    }
}
