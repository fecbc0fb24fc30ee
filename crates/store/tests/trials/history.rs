//! The history of one trial: its requests, their decisions by the deciding clock, holds, settlements and faults. Promises are judged by the
//! history alone.

mod clock;

use tidegate_core::{Block, Micros, Verdict};
use tidegate_store::{Mode, OnFailure, Outcome, StoreError, Via};

use crate::case::{LimitCase, Member, PLAN};
use crate::law::{Kind, Numbers};

/// The longest time by which a replica may be behind its primary, in us.
const LAG: Micros = 100_000;
/// A time after all others. Adding to it does not overflow.
const FOREVER: Micros = Micros::MAX / 2;

/// The history of one trial.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) limits: Vec<Limit>,
    pub(crate) requests: Vec<Request>,
    pub(crate) resets: Vec<Reset>,
    pub(crate) losses: Vec<Loss>,
    pub(crate) troubles: Vec<Trouble>,
    /// The times in which Redis surely answered no call.
    pub(crate) outages: Vec<Span>,
    /// The numbers of gateways that heartbeats were answered with.
    pub(crate) counts: Vec<Count>,
    /// The ends of gateways.
    pub(crate) ends: Vec<End>,
    /// The number of gateways in the configuration. `None` if heartbeats count them.
    pub(crate) gateways: Option<u64>,
    /// Whether the memory store was used.
    pub(crate) in_memory: bool,
    /// Whether the keys of a request may be at several nodes of a cluster.
    pub(crate) in_cluster: bool,
    /// The longest time until a gateway receives the counts of others: two `sync_every` and one exchange.
    pub(crate) unseen: Micros,
    /// The longest that a decision waits for Redis.
    pub(crate) timeout: Micros,
    /// The budgets in the store after the end of all trouble and all settlements.
    pub(crate) looks: Vec<Look>,
    /// Refused requests that were sent again, alone, after their retry-after.
    pub(crate) returns: Vec<Return>,
    /// The steps of the deciding clock.
    pub(crate) steps: Vec<Step>,
    /// The part of the history that is judged.
    pub(crate) judged: Judged,
    /// The tolerance for a limit whose clock was stepped.
    pub(crate) leeway: Leeway,
    /// Whether a failed reset counts as not made after its answer. One promise needs this. The others allow that it is made at any time.
    pub(crate) has_no_late_resets: bool,
}

/// A step of the deciding clock, at some time in `span`. From then on, it is `ahead` us ahead of this machine's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) span: Span,
    pub(crate) ahead: i64,
}

/// The promises that are judged by the times of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Judged {
    #[default]
    All,
    /// Promises on decisions of gateways, by their clocks.
    Gateways,
    /// Promises on one limit, by the clock that decided.
    Limit(usize),
}

/// The tolerance for a limit whose clock was stepped.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Leeway {
    /// The most by which a clock that was stepped forward may be ahead of a gateway's.
    pub(crate) ahead: Micros,
    /// The longest time for which the clock may stand still, because it was stepped back.
    pub(crate) back: Micros,
    /// Whether the clock stands still after a step back. Meanwhile, no time span ends by this clock.
    pub(crate) stands: bool,
}

/// A limit, with the settings that are the same for all plans and after reloads.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub(crate) kind: Kind,
    /// The window, or the lease of `concurrency`.
    pub(crate) window: Micros,
    pub(crate) mode: Mode,
    pub(crate) on_failure: OnFailure,
    pub(crate) block: Option<Block>,
    pub(crate) is_observed: bool,
    /// Whether charges are reservations.
    pub(crate) reserves: bool,
    /// The mode that gateways change to, if any.
    pub(crate) becomes: Option<Mode>,
}

/// A time span, which includes both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) begin: Micros,
    pub(crate) end: Micros,
}

impl Span {
    pub(crate) const fn at(time: Micros) -> Self {
        Self {
            begin: time,
            end: time,
        }
    }

    pub(crate) const fn meets(&self, begin: Micros, end: Micros) -> bool {
        self.begin <= end && begin <= self.end
    }
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) gateway: usize,
    /// From the call of the store to its answer, by this machine's clock.
    pub(crate) asked: Span,
    pub(crate) charges: Vec<Charge>,
    pub(crate) said: Said,
    /// Whether Redis was called for this request.
    pub(crate) called: bool,
    /// When an admitted request ended. `None` while it runs.
    pub(crate) ran_until: Option<Micros>,
    /// When its real cost was settled. Before that, it counts for its reserved units.
    pub(crate) settled: Option<Micros>,
    /// Redis may decide the request until this time, even if the gateway or the client has given up.
    pub(crate) given_up: Micros,
    /// The longest wait of the decision for Redis, if it is shorter than the timeout.
    pub(crate) within: Option<Micros>,
}

/// The charge of a request to one limit, and the limit's verdict.
#[derive(Clone, Debug)]
pub(crate) struct Charge {
    pub(crate) limit: usize,
    /// The key of the budget, from the client's key and the plan.
    pub(crate) key: u64,
    pub(crate) numbers: Numbers,
    pub(crate) cost: u64,
    pub(crate) verdict: Option<Verdict>,
    /// The time of the decision by the deciding clock. It is a span if the exact time is unknown.
    pub(crate) at: Span,
    /// Whether the gateway decided, and not Redis.
    pub(crate) here: bool,
    /// Its real cost, if it is settled.
    pub(crate) used: Option<u64>,
    /// The mode of the limit in its gateway, if it has changed there.
    pub(crate) changed: Option<Mode>,
    /// The share of a member in the limit, and its verdict.
    pub(crate) share: Option<(Member, Option<Verdict>)>,
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Decided {
        outcome: Outcome,
        via: Via,
        error: Option<String>,
    },
    /// The client did not wait for the answer.
    Aborted,
}

/// A reset of one key's budget, at some time in `span`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reset {
    pub(crate) limit: usize,
    pub(crate) key: u64,
    pub(crate) span: Span,
    /// Whether the reset succeeded. A failed reset may still have been made.
    pub(crate) done: bool,
}

/// A loss of Redis's data, at some time in `span`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    pub(crate) span: Span,
    /// Whether all data were lost. Otherwise, only writes to one node since the begin of the span were lost.
    pub(crate) is_whole: bool,
}

/// A time in which one gateway, or all of them, may not have reached Redis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trouble {
    /// `None` if all gateways are affected.
    pub(crate) gateway: Option<usize>,
    pub(crate) kind: &'static str,
    pub(crate) span: Span,
}

/// The number of gateways that a heartbeat of one gateway was answered with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count {
    pub(crate) gateway: usize,
    pub(crate) at: Micros,
    pub(crate) count: u64,
}

/// The end of a gateway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) gateway: usize,
    pub(crate) at: Micros,
    /// Whether it shut down in order, and sent all its counts and slices back.
    pub(crate) in_order: bool,
}

/// The budget of a key in the store, after all requests and settlements had ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) limit: usize,
    /// `None` for a key that was never used.
    pub(crate) key: Option<u64>,
    pub(crate) numbers: Numbers,
    pub(crate) at: Micros,
    pub(crate) remaining: u64,
    /// The units that are lent in slices, if they were read.
    pub(crate) lent: Option<u64>,
}

/// A request that was refused while no other ran, and the answer to its repetition after the retry-after.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Return {
    /// The limit and the key of the refusal with the longest wait.
    pub(crate) limit: usize,
    pub(crate) key: u64,
    pub(crate) refused: Micros,
    pub(crate) retry_after: Micros,
    pub(crate) asked_again: Micros,
    pub(crate) admitted: bool,
}

impl Limit {
    pub(crate) const fn of(case: &LimitCase, becomes: Option<Mode>) -> Self {
        Self {
            reserves: case.reserves.is_some(),
            becomes,
            kind: case.kind,
            window: case.window,
            mode: case.mode,
            on_failure: case.on_failure,
            block: case.block,
            is_observed: case.is_observed,
        }
    }
}

impl Charge {
    /// The longest wait of the limit and the share that refuse. `None` if none of them does.
    pub(crate) fn refused_for(&self) -> Option<Micros> {
        let share = self.share.and_then(|(_, verdict)| verdict);
        let refusals = [self.verdict, share].into_iter().flatten();
        let refusals = refusals.filter(|verdict| !verdict.allowed);
        refusals.map(|verdict| verdict.retry_after).max()
    }

    /// Whether the limit, and the share if there is one, surely refuse.
    pub(crate) fn is_refused_by_all(&self) -> bool {
        let refuses = |verdict: Option<Verdict>| verdict.is_some_and(|it| !it.allowed);
        refuses(self.verdict) && self.share.is_none_or(|(_, verdict)| refuses(verdict))
    }
}

impl Request {
    /// Whether a limit refused it.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(
            self.said,
            Said::Decided {
                outcome: Outcome::Refused,
                ..
            }
        )
    }

    /// Whether the request was admitted.
    pub(crate) fn is_admitted(&self) -> bool {
        matches!(
            self.said,
            Said::Decided {
                outcome: Outcome::Admitted,
                ..
            }
        )
    }

    pub(crate) const fn via(&self) -> Option<Via> {
        match self.said {
            Said::Decided { via, .. } => Some(via),
            Said::Aborted => None,
        }
    }

    /// Whether the decision has no answer only because it waited for less than the timeout, so that its error proves no trouble.
    pub(crate) fn is_impatient(&self) -> bool {
        let Said::Decided { error, .. } = &self.said else {
            return false;
        };
        let early = [StoreError::Timeout, StoreError::Late].map(|early| early.to_string());
        let is_early = error.as_ref().is_some_and(|error| early.contains(error));
        self.within.is_some() && is_early
    }

    /// Whether Redis may have been called, and no answer arrived.
    pub(crate) const fn is_unanswered(&self) -> bool {
        match &self.said {
            Said::Decided { error, .. } => error.is_some(),
            Said::Aborted => true,
        }
    }
}

impl Trouble {
    /// The kind of a fault that makes calls and answers late.
    pub(crate) const LATE: &'static str = "call late";

    /// Whether a call may be lost, and not only late.
    pub(crate) fn may_lose_calls(&self) -> bool {
        ![Self::LATE, "stall", "slow Redis"].contains(&self.kind)
    }
}

impl History {
    /// The mode of a charge's limit in the gateway that decided.
    pub(crate) fn mode(&self, charge: &Charge) -> Mode {
        charge.changed.unwrap_or(self.limits[charge.limit].mode)
    }

    /// Whether the keys of a request are in several slots, so that the store first takes holds in each slot.
    pub(crate) fn is_split(&self, request: &Request) -> bool {
        let mut keys = request.charges.iter().map(|charge| charge.key % PLAN);
        let first = keys.next();
        self.in_cluster && keys.any(|key| Some(key) != first)
    }

    /// Whether the promises of a limit are judged by these times.
    pub(crate) fn judges(&self, limit: usize) -> bool {
        match self.judged {
            Judged::All => true,
            Judged::Gateways => self.limits[limit].mode == Mode::Local,
            Judged::Limit(judged) => judged == limit,
        }
    }

    /// Whether decisions of gateways without Redis are judged by these times.
    pub(crate) fn judges_gateways(&self) -> bool {
        !matches!(self.judged, Judged::Limit(_))
    }

    /// The requested keys of judged limits, each with its limit.
    pub(crate) fn keys(&self) -> Vec<(usize, u64)> {
        let mut keys = self.all_keys();
        keys.retain(|(limit, _)| self.judges(*limit));
        keys
    }

    /// The requested keys, each with its limit.
    pub(crate) fn all_keys(&self) -> Vec<(usize, u64)> {
        let charges = self.requests.iter().flat_map(|request| &request.charges);
        let mut keys: Vec<_> = charges.map(|charge| (charge.limit, charge.key)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// All charges to one key, with their requests.
    pub(crate) fn of(&self, limit: usize, key: u64) -> impl Iterator<Item = (&Request, &Charge)> {
        self.requests.iter().filter_map(move |request| {
            let is_its = |charge: &&Charge| charge.limit == limit && charge.key == key;
            request
                .charges
                .iter()
                .find(is_its)
                .map(|charge| (request, charge))
        })
    }

    /// When the used units of a key may have been lost, by a reset or with Redis's data.
    pub(crate) fn forgotten(&self, limit: usize, key: u64) -> Vec<Span> {
        self.forgettings(limit, key).map(|(span, _)| span).collect()
    }

    /// When the used units of a key were surely lost.
    pub(crate) fn surely_forgotten(&self, limit: usize, key: u64) -> Vec<Span> {
        let all = self.forgettings(limit, key);
        all.filter_map(|(span, done)| done.then_some(span))
            .collect()
    }

    fn forgettings(&self, limit: usize, key: u64) -> impl Iterator<Item = (Span, bool)> {
        let resets = self.resets.iter();
        let resets = resets.filter(move |reset| reset.limit == limit && reset.key == key);
        let resets = resets.map(move |reset| {
            // Times of synced limits are from Redis's clock as their gateway estimates it.
            let is_synced = self.limits[limit].mode == Mode::Synced;
            let ahead = if is_synced { self.timeout } else { 0 };
            let is_late = !reset.done && !self.has_no_late_resets;
            let end = match is_late {
                true => FOREVER,
                false => reset.span.end + ahead,
            };
            let is_sure = reset.done && !self.may_be_lost(reset.span);
            let begin = reset.span.begin - ahead;
            (Span { begin, end }, is_sure)
        });
        let losses = self.losses.iter();
        let losses = losses.map(|loss| (loss.span, loss.is_whole));
        // Redis 7.0 uses one time in a script, and another for expiry. If the clock is set back while a script runs, its writes may expire
        // at once, with all used units.
        let asked = move |at: &Span| {
            let mut of = self.of(limit, key);
            of.any(|(request, _)| request.asked.meets(at.begin, at.end))
        };
        let steps = self.steps.iter().map(|step| step.span).filter(asked);
        let steps = steps.map(|span| (span, false));
        resets.chain(losses).chain(steps)
    }

    /// Whether writes of this time may be missing in the replica that took over.
    pub(crate) fn may_be_lost(&self, written: Span) -> bool {
        let partial = self.losses.iter().filter(|loss| !loss.is_whole);
        let mut spans = partial.map(|loss| loss.span);
        spans.any(|loss| loss.begin <= written.end + LAG && written.begin <= loss.end)
    }

    /// When a gateway may not have reached Redis.
    pub(crate) fn troubles_of(&self, gateway: usize) -> impl Iterator<Item = Span> {
        let troubles = self.troubles.iter();
        let own = troubles.filter(move |trouble| trouble.gateway.is_none_or(|of| of == gateway));
        own.map(|trouble| trouble.span)
    }

    /// The largest number of gateways that this gateway has received until this time.
    pub(crate) fn told(&self, gateway: usize, by: Micros) -> u64 {
        if let Some(fixed) = self.gateways {
            return fixed;
        }
        let counts = self.counts.iter();
        let counts = counts.filter(|count| count.gateway == gateway && count.at <= by);
        counts.map(|count| count.count).max().unwrap_or(1)
    }

    /// The numbers by which a gateway may admit requests to a limit by itself.
    pub(crate) fn share(
        &self,
        numbers: &Numbers,
        gateway: usize,
        limit: usize,
        at: Micros,
    ) -> Numbers {
        match self.limits[limit].mode {
            Mode::Local => *numbers,
            _ => numbers.divided(self.told(gateway, at)),
        }
    }
}
