//! The decision about a request: the caller, the verdict of each limit, and the resulting answer.

pub(crate) mod headers;
mod ietf;
pub(crate) mod refusal;

use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode};
use tidegate_core::{Micros, Verdict, micros};
use tidegate_store::{Decision, Limit, Outcome, PerCharge};

use crate::body_costs::BodyCost;
use crate::in_flight::{Body, BodySettled, InFlight, Reservation, Settled};
use crate::{Action, Answers, Policy, Rule, WaitQueues};
use refusal::Refusal;
use tidegate_identity::{AccessVerdict, Caller, Client, ClientPlan, Credentials, ListEntry};

/// The decision about a request, with the caller and the data for the answer.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The client that sent the request.
    pub client: Client,
    /// The client's plan.
    pub plan: Option<ClientPlan>,
    /// The plan that the client's token names, if the configuration has no such plan.
    pub unknown_plan: Option<Box<str>>,
    /// The store's decision; `None` if the store was not called.
    pub decision: Option<Decision>,
    /// The total time that the request waited, first until its limits admitted it, then for its turn in a `queue`.
    pub waited: Duration,
    /// The time that the request waited before the final decision, because a limit refused it at first. Part of `waited`.
    pub delayed: Duration,
    /// The route's rules.
    pub rules: Arc<[Rule]>,
    /// The indices of the rules that the store decided, in the order of the decision's verdicts.
    pub charged: PerCharge<usize>,
    /// The highest charge that a limit made for the request; 0 if no limit charged it.
    pub cost: u64,
    /// The charge of each rule in `charged`, in the same order.
    pub(crate) costs: PerCharge<u64>,
    /// The index of the rule that the rate-limit headers describe.
    pub tightest: Option<usize>,
    /// Whether the client sent an API key that is not listed.
    pub unknown_key: bool,
    /// The kind of the refused credentials. `None` if no credentials were refused.
    pub refused: Option<Credentials>,
    /// The limit that can never admit the cost of the request, if there is one. The store is not called for such a request.
    pub oversized: Option<Oversized>,
    /// Whether the request was denied, or is exempt from limits; `None` if neither.
    pub access: Option<Box<AccessVerdict>>,
    /// The result of reading the cost from the answer's body.
    pub body_cost: BodyCost,
}

/// A cost that a limit can never admit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oversized {
    /// The rule's index among the route's rules.
    pub index: usize,
    /// The cost of the request under this rule.
    pub cost: u64,
}

/// The verdict of one limit on a request.
#[derive(Clone, Copy, Debug)]
pub struct LimitVerdict<'a> {
    /// The rule's index among the route's rules.
    pub index: usize,
    /// The rule.
    pub rule: &'a Rule,
    /// The rule's limit, with the quota of the client's plan.
    pub limit: &'a Limit,
    /// The limit's verdict; `None` if no store could decide.
    pub verdict: Option<&'a Verdict>,
}

impl LimitVerdict<'_> {
    /// Whether the limit refuses the request.
    fn refuses(&self) -> bool {
        self.verdict.is_some_and(|verdict| !verdict.allowed)
    }
}

impl Decided {
    /// Makes a value for this caller, without a decision. The value is boxed, because it is moved from step to step until the request ends.
    pub(crate) fn of(caller: Caller, policy: &Policy) -> Box<Self> {
        Box::new(Self {
            client: caller.client,
            plan: caller.plan,
            unknown_plan: caller.unknown_plan,
            decision: None,
            waited: Duration::ZERO,
            delayed: Duration::ZERO,
            rules: policy.rules.clone(),
            charged: PerCharge::new(),
            cost: 0,
            costs: PerCharge::new(),
            tightest: None,
            unknown_key: caller.unknown_key,
            refused: caller.refused,
            oversized: None,
            access: None,
            body_cost: BodyCost::NotAsked,
        })
    }

    /// Returns the entry that denied the request: an entry of `deny` or `allow`, or an override that blocks the client.
    pub fn denied_by(&self) -> Option<&ListEntry> {
        self.access.as_ref()?.denied_by()
    }

    /// Returns the entry that exempts the request from limits: an entry of `exempt`, or an override.
    // Inlined, because another crate calls this function for each request that it counts.
    #[inline]
    pub fn exempt_by(&self) -> Option<&ListEntry> {
        self.access.as_ref()?.exempt_by()
    }

    /// Returns the verdict of each limit that the store decided, in the order of the rules.
    // Inlined, because another crate loops over the verdicts.
    #[inline]
    pub fn verdicts(&self) -> impl Iterator<Item = LimitVerdict<'_>> + Clone {
        let decision = self.decision.as_ref();
        let verdicts: &[_] = decision.map_or(&[], |decision| &decision.verdicts);
        let verdicts = self.charged.iter().zip(verdicts);
        let (rules, plan) = (&self.rules, self.plan.as_ref());
        verdicts.filter_map(move |(index, verdict)| {
            let rule = rules.get(*index)?;
            Some(LimitVerdict {
                index: *index,
                rule,
                limit: rule.limit_for(plan)?,
                verdict: verdict.as_ref(),
            })
        })
    }

    /// Returns the time of the first call to the store for this request, by the store's clock, in us since the epoch.
    pub fn asked_at(&self) -> Option<Micros> {
        let decision = self.decision.as_ref()?;
        Some(decision.now.saturating_sub(micros(self.delayed)))
    }

    pub(crate) fn decide(&mut self, decision: Decision) {
        self.decision = Some(decision);
        self.choose();
    }

    /// Records the real cost of a hold that has ended. The rate-limit headers count this cost as used.
    pub(crate) fn settle(&mut self, settled: Settled<'_>) {
        if settled.used == settled.reserved {
            return;
        }
        let verdicts = self.decision.iter_mut();
        let verdicts = verdicts.flat_map(|decision| &mut decision.verdicts);
        let charged = self.charged.iter().zip(&mut self.costs);
        for ((index, cost), verdict) in charged.zip(verdicts) {
            let rule = self.rules.get(*index);
            if rule.is_none_or(|rule| rule.limit.name() != settled.limit.name()) {
                continue;
            }
            *cost = settled.used;
            if let Some(verdict) = verdict {
                let before = verdict.remaining.saturating_add(settled.reserved);
                let left = before.saturating_sub(settled.used);
                verdict.remaining = left.min(settled.limit.quota().capacity());
            }
        }
        self.cost = self.costs.iter().copied().max().unwrap_or(0);
        self.choose();
    }

    /// Ends the holds whose cost is in the head of the answer. Returns the other holds, which last until the body has ended.
    pub(crate) fn settle_head<B>(
        &mut self,
        reservation: Reservation,
        answer: &Response<B>,
        wait_queues: &WaitQueues,
    ) -> Option<InFlight> {
        let address = reservation.address;
        let (holds, costs) = reservation.settle(answer, |settled| self.settle(settled));
        self.body_cost = costs
            .as_ref()
            .map_or_else(|why| *why, |_| BodyCost::Pending);
        let client = &self.client;
        let body = costs.ok().map(|costs| Body {
            costs,
            client: Some(client.clone()),
            address,
            wait_queues: wait_queues.clone(),
            has_left: false,
            is_cut: false,
        });
        Some(InFlight::new(holds?, body))
    }

    /// Ends the holds whose cost is in the answer's body. Call this function when the body has ended, or when the gateway reads no more of
    /// the body. Records the costs in `decided`. `None` if no hold waits for a cost in the body.
    pub fn settle_body(decided: Option<&mut Self>, in_flight: &InFlight) -> Option<BodySettled> {
        let Some(decided) = decided else {
            return in_flight.settle(|_| {});
        };
        let settled = in_flight.settle(|settled| decided.settle(settled))?;
        decided.body_cost = settled.result;
        Some(settled)
    }

    /// Chooses the limit that the rate-limit headers describe.
    fn choose(&mut self) {
        // If credentials are refused and no limit refuses, the answer is a 401 or 400, and the gateway adds no rate-limit headers.
        let outcome = self.outcome();
        let outcome = outcome.filter(|it| self.refused.is_none() || *it == Outcome::Refused);
        self.tightest = outcome.and_then(|outcome| headers::tightest(outcome, self.verdicts()));
    }

    /// Returns the refusal to send if the request must not be forwarded.
    pub(crate) fn refusal(&self, answers: &Answers) -> Option<Refusal> {
        if self.denied_by().is_some() {
            return Some(refusal::denied());
        }
        if let Some(Oversized { index, cost }) = self.oversized
            && let Some(rule) = self.rules.get(index)
            && let Some(limit) = rule.limit_for(self.plan.as_ref())
        {
            return Some(refusal::too_costly(limit, cost));
        }
        match self.outcome() {
            None | Some(Outcome::Admitted) => self.refused.map(refusal::unauthorized),
            Some(Outcome::Unavailable) => Some(refusal::no_store()),
            Some(Outcome::Refused) => {
                let refusing = self.refusing();
                let refusing = refusing.map(|(entry, verdict)| (entry.rule, verdict));
                Some(refusal::too_many(refusing, &answers.reject))
            }
        }
    }

    /// Returns the status of the refusal to send, and the `error` of its problem details. `None` if the request may pass. A refusal by a
    /// limit has no `error`.
    pub fn refused_with(&self, answers: &Answers) -> Option<(StatusCode, Option<&'static str>)> {
        if self.denied_by().is_some() {
            return Some((StatusCode::FORBIDDEN, Some("denied")));
        }
        if self.oversized.is_some() {
            return Some((StatusCode::BAD_REQUEST, Some("cost_exceeds_limit")));
        }
        match self.outcome() {
            Some(Outcome::Refused) => Some((answers.reject.status, None)),
            Some(Outcome::Unavailable) => {
                let error = "limits_unavailable";
                Some((StatusCode::SERVICE_UNAVAILABLE, Some(error)))
            }
            None | Some(Outcome::Admitted) => {
                let error = Some("credentials_required");
                self.refused.map(|_| (StatusCode::UNAUTHORIZED, error))
            }
        }
    }

    fn outcome(&self) -> Option<Outcome> {
        self.decision.as_ref().map(|decision| decision.outcome)
    }

    /// Returns the strongest action of the limits that refused the request. `None` if no limit refused the request.
    pub fn action(&self) -> Option<Action> {
        let refusing = self.refusing().map(|(entry, _)| entry.rule.action);
        refusing
            .max()
            .filter(|_| self.outcome() == Some(Outcome::Refused))
    }

    /// Returns the limits that would have refused this request if they did not only observe. Returns no limit unless the request was
    /// admitted.
    pub fn would_refuse(&self) -> impl Iterator<Item = &Limit> {
        let went_on = self.outcome() == Some(Outcome::Admitted);
        let refusing = self
            .verdicts()
            .filter(move |entry| went_on && entry.refuses());
        let observed = refusing.filter(|entry| entry.limit.is_observed());
        observed.map(|entry| entry.limit)
    }

    /// Returns the limits that refused this request.
    pub fn refused_by(&self) -> impl Iterator<Item = &Limit> {
        let is_refused = self.outcome() == Some(Outcome::Refused);
        let refusing = self.refusing().filter(move |_| is_refused);
        refusing.map(|(entry, _)| entry.limit)
    }

    /// Returns the limits that refused, with their verdicts. Leaves out limits that only observe.
    fn refusing(&self) -> impl Iterator<Item = (LimitVerdict<'_>, &Verdict)> + Clone {
        let refusing = self.verdicts().filter(LimitVerdict::refuses);
        let enforced = refusing.filter(|entry| !entry.limit.is_observed());
        enforced.filter_map(|entry| Some((entry, entry.verdict?)))
    }

    /// Writes the rate-limit headers, if there is a limit to describe.
    pub(crate) fn write_headers<R>(&self, response: &mut Response<R>, answers: &Answers) {
        let Some(decision) = &self.decision else {
            return;
        };
        let tightest = self
            .verdicts()
            .find(|entry| Some(entry.index) == self.tightest);
        let Some((tightest, verdict)) = tightest.and_then(|entry| Some((entry, entry.verdict?)))
        else {
            return;
        };
        let headers = response.headers_mut();
        if let Some(reset) = answers.headers.x_ratelimit {
            headers::write(headers, tightest.limit, verdict, decision.now, reset);
        }
        if answers.headers.ietf {
            let limits = self.verdicts().filter(|entry| {
                let is_own = entry.rule.is_shown() && entry.verdict.is_some();
                is_own || entry.index == tightest.index
            });
            ietf::write(
                headers,
                limits.map(|entry| entry.limit),
                tightest.limit,
                verdict,
            );
        }
    }
}
