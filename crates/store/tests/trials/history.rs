//! What happened in one trial: what was asked, by whom, and what was decided and when by the deciding clock. It also has what was
//! held and settled, and which faults there were. Promises are judged by this alone.

mod clock;

use tidegate_core::{Block, Micros, Verdict};
use tidegate_store::{Mode, OnFailure, Outcome, Via};

use crate::case::{LimitCase, PLAN};
use crate::law::{Kind, Numbers};

/// How far a replica may be behind its primary.
const LAG: Micros = 100_000;
/// Later than all else, with room to add to it.
const FOREVER: Micros = Micros::MAX / 2;

/// All of one trial.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) limits: Vec<Limit>,
    pub(crate) requests: Vec<Request>,
    pub(crate) resets: Vec<Reset>,
    pub(crate) losses: Vec<Loss>,
    pub(crate) troubles: Vec<Trouble>,
    /// What gateways said that they count, by themselves: a heartbeat that was answered.
    pub(crate) counts: Vec<Count>,
    /// When a gateway ended, and how.
    pub(crate) ends: Vec<End>,
    /// How many gateways the configuration says there are; none: they are counted.
    pub(crate) gateways: Option<u64>,
    /// Whether all of it is kept in this process.
    pub(crate) in_memory: bool,
    /// Whether the keys of a request may be at several nodes of a cluster.
    pub(crate) in_cluster: bool,
    /// How long a gateway may not know what others count by themselves: two `sync_every` and one exchange.
    pub(crate) unseen: Micros,
    /// The longest that a decision waits for Redis.
    pub(crate) timeout: Micros,
    /// What was looked at when all trouble was over and all was settled.
    pub(crate) looks: Vec<Look>,
    /// Who was refused, and asked again alone when the time had come.
    pub(crate) returns: Vec<Return>,
    /// When the deciding clock was stepped.
    pub(crate) steps: Vec<Step>,
    /// What of it is judged.
    pub(crate) judged: Judged,
    /// What is granted to a limit whose clock was stepped.
    pub(crate) leeway: Leeway,
    /// Whether a reset that was answered as failed counts as not made after its answer. One promise is about that; the others allow
    /// that it is made at any time.
    pub(crate) has_no_late_resets: bool,
}

/// The deciding clock was stepped at some time between, and is so many us ahead of this machine's from then on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) span: Span,
    pub(crate) ahead: i64,
}

/// Which promises are judged by the times of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Judged {
    #[default]
    All,
    /// Those of gateways, by their clocks: all but what Redis has decided.
    Gateways,
    /// Those of one limit, by the clock that decided.
    Limit(usize),
}

/// What is granted to a limit whose clock was stepped.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Leeway {
    /// By so much a clock that was stepped forward may be ahead of a gateway's, at most.
    pub(crate) ahead: Micros,
    /// For so long it may stand, because it was stepped back.
    pub(crate) back: Micros,
    /// Whether it stands after a step back: spans that end meanwhile have no end by it.
    pub(crate) stands: bool,
}

/// A limit, with what is the same for all plans and after reloads.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub(crate) kind: Kind,
    /// Of window algorithms the window, of `concurrency` the lease.
    pub(crate) window: Micros,
    pub(crate) mode: Mode,
    pub(crate) on_failure: OnFailure,
    pub(crate) block: Option<Block>,
    pub(crate) is_observed: bool,
    /// Whether charges are reservations.
    pub(crate) reserves: bool,
    /// The mode that gateways change to, if they do.
    pub(crate) becomes: Option<Mode>,
}

/// A time span, both ends included.
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
    /// From the call of the store to its answer, by this machine's clock, which is Redis's.
    pub(crate) asked: Span,
    pub(crate) charges: Vec<Charge>,
    pub(crate) said: Said,
    /// Whether Redis was asked for it.
    pub(crate) called: bool,
    /// Until when an admitted request ran; none: it is not over.
    pub(crate) ran_until: Option<Micros>,
    /// When what it came to was said; before that it had not come to anything else than it reserved.
    pub(crate) settled: Option<Micros>,
    /// Until then Redis may still decide it, whoever has given up.
    pub(crate) given_up: Micros,
}

/// What a request asked of one limit, and what that said.
#[derive(Clone, Debug)]
pub(crate) struct Charge {
    pub(crate) limit: usize,
    /// The key of the budget: that of the client, and of the plan.
    pub(crate) key: u64,
    pub(crate) numbers: Numbers,
    pub(crate) cost: u64,
    pub(crate) verdict: Option<Verdict>,
    /// When that was decided: exact if the deciding clock was told, or between two times.
    pub(crate) at: Span,
    /// Whether this process decided, and not Redis.
    pub(crate) here: bool,
    /// What it has come to, once it is settled.
    pub(crate) used: Option<u64>,
    /// The mode of the limit in its gateway, if it has changed there.
    pub(crate) changed: Option<Mode>,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Decided {
        outcome: Outcome,
        via: Via,
        error: Option<String>,
    },
    /// Its client did not wait for the answer.
    Aborted,
}

/// What was used under one key was forgotten: at some time between, if it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reset {
    pub(crate) limit: usize,
    pub(crate) key: u64,
    pub(crate) span: Span,
    /// Whether it surely was.
    pub(crate) done: bool,
}

/// Redis lost its data, at any time between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    pub(crate) span: Span,
    /// All of it; or what was written since the span began, at some node.
    pub(crate) is_whole: bool,
}

/// A time in which one gateway, or all of them, may not have reached Redis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trouble {
    /// None: all of them.
    pub(crate) gateway: Option<usize>,
    pub(crate) kind: &'static str,
    pub(crate) span: Span,
}

/// A gateway was told how many there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count {
    pub(crate) gateway: usize,
    pub(crate) at: Micros,
    pub(crate) count: u64,
}

/// A gateway ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) gateway: usize,
    pub(crate) at: Micros,
    /// Whether it could tell what only it knew.
    pub(crate) in_order: bool,
}

/// What the store said about a key when nothing was under way any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) limit: usize,
    /// None: a key that was never used.
    pub(crate) key: Option<u64>,
    pub(crate) numbers: Numbers,
    pub(crate) at: Micros,
    pub(crate) remaining: u64,
    /// What is out in slices, if that was looked at.
    pub(crate) lent: Option<u64>,
}

/// A request that was refused when there were no others, and what was said when its retry-after was over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Return {
    /// The limit and key that refused it, the one with the longest wait.
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

    /// Whether the client was let through.
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

    /// Whether Redis may have been asked, and no answer came of that.
    pub(crate) const fn is_unanswered(&self) -> bool {
        match &self.said {
            Said::Decided { error, .. } => error.is_some(),
            Said::Aborted => true,
        }
    }
}

impl History {
    /// The mode of a charge's limit in the gateway that decided.
    pub(crate) fn mode(&self, charge: &Charge) -> Mode {
        charge.changed.unwrap_or(self.limits[charge.limit].mode)
    }

    /// Whether the keys of a request are at several slots, in which one round takes holds.
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

    /// Whether what gateways decide by themselves is judged by these times.
    pub(crate) fn judges_gateways(&self) -> bool {
        !matches!(self.judged, Judged::Limit(_))
    }

    /// The keys that were asked for of limits that are judged, by limit.
    pub(crate) fn keys(&self) -> Vec<(usize, u64)> {
        let mut keys = self.all_keys();
        keys.retain(|(limit, _)| self.judges(*limit));
        keys
    }

    /// The keys that were asked for, by limit.
    pub(crate) fn all_keys(&self) -> Vec<(usize, u64)> {
        let charges = self.requests.iter().flat_map(|request| &request.charges);
        let mut keys: Vec<_> = charges.map(|charge| (charge.limit, charge.key)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// All that was asked of one key.
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

    /// When what was used under a key may have been forgotten, by a reset or with Redis's data.
    pub(crate) fn forgotten(&self, limit: usize, key: u64) -> Vec<Span> {
        self.forgettings(limit, key).map(|(span, _)| span).collect()
    }

    /// When what was used under a key surely was forgotten.
    pub(crate) fn surely_forgotten(&self, limit: usize, key: u64) -> Vec<Span> {
        let all = self.forgettings(limit, key);
        all.filter_map(|(span, done)| done.then_some(span))
            .collect()
    }

    fn forgettings(&self, limit: usize, key: u64) -> impl Iterator<Item = (Span, bool)> {
        let resets = self.resets.iter();
        let resets = resets.filter(move |reset| reset.limit == limit && reset.key == key);
        let resets = resets.map(move |reset| {
            // Times of synced limits are those of a clock that their gateway estimates.
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
        // Redis 7.0 keeps one time for a script, and reckons expiry by another. What a script writes while the clock is set back has
        // expired by the script's time, with all that was used.
        let asked = move |at: &Span| {
            let mut of = self.of(limit, key);
            of.any(|(request, _)| request.asked.meets(at.begin, at.end))
        };
        let steps = self.steps.iter().map(|step| step.span).filter(asked);
        let steps = steps.map(|span| (span, false));
        resets.chain(losses).chain(steps)
    }

    /// Whether what was written then may be missing from the replica that took over.
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

    /// How many gateways this one was told there are, at most, by this time.
    pub(crate) fn told(&self, gateway: usize, by: Micros) -> u64 {
        if let Some(fixed) = self.gateways {
            return fixed;
        }
        let counts = self.counts.iter();
        let counts = counts.filter(|count| count.gateway == gateway && count.at <= by);
        counts.map(|count| count.count).max().unwrap_or(1)
    }

    /// What a gateway may give away of a limit by itself.
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
