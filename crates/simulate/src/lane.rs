//! One run of a configuration over the requests of the log: the store, and all timed events.

mod events;
mod used;
mod waiting;

use std::collections::HashMap;

use clap::ValueEnum;
use tidegate_core::Micros;
use tidegate_store::{Charge, Decision, MemoryStore, Outcome, PerCharge};
use tidegate_tower::RuleCharge;

use crate::asked::Asked;
use crate::ladder::Ladder;
use crate::stats::{Ending, LaneStats};
use events::{Event, Events, QueueKey, Running};
pub(crate) use used::UsedKeys;
use waiting::{WaitQueue, Waiting};

/// Most keys of the memory store. No log has this many keys, so the store never drops a budget that still counts.
const KEYS: usize = 1 << 40;

/// Time between two sweeps of expired keys, in us of the log's time.
const SWEEP: Micros = 60_000_000;

/// Number of requests whose keys are read into the processor's cache before the first of these requests is decided.
pub(crate) const AHEAD: usize = 32;

/// Number of events between two calls of `go_on` in `finish`, which runs after the last request of the log.
const CHECK_EVERY: u64 = 1_024;

/// The behaviour of refused clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RetryModel {
    /// They do not come again.
    None,
    /// They come again after Retry-After, ten times at most.
    After,
}

/// Most retries of a refused request.
const MAX_ATTEMPTS: u32 = 10;

/// One run.
pub(crate) struct Lane<'p> {
    store: MemoryStore,
    /// The used units of all keys. If no limit holds units, they replace the `store`, because they decide faster.
    used: Option<UsedKeys>,
    now: Micros,
    swept: Micros,
    events: Events<'p>,
    queues: HashMap<QueueKey, WaitQueue<'p>>,
    retries: RetryModel,
    pub(crate) stats: LaneStats,
    /// Other quotas of each limit.
    pub(crate) ladders: Vec<Ladder>,
}

impl<'p> Lane<'p> {
    pub(crate) fn new(
        stats: LaneStats,
        ladders: Vec<Ladder>,
        retries: RetryModel,
        used: Option<UsedKeys>,
    ) -> Self {
        Self {
            store: MemoryStore::new(KEYS),
            used,
            now: 0,
            swept: 0,
            events: Events::default(),
            queues: HashMap::new(),
            retries,
            stats,
            ladders,
        }
    }

    /// Decides requests in the order of their arrival. A request with an earlier time than its predecessor arrives at the time of its
    /// predecessor.
    pub(crate) fn arrive_all<'a>(
        &mut self,
        requests: impl Iterator<Item = (&'a Asked<'p>, Micros)> + Clone,
    ) where
        'p: 'a,
    {
        let mut ahead = requests.clone();
        for (nth, (request, at)) in requests.enumerate() {
            if nth.is_multiple_of(AHEAD) {
                let some = ahead.by_ref().take(AHEAD);
                some.for_each(|(request, _)| self.look_ahead(request));
            }
            self.arrive(request, at);
        }
    }

    /// Reads the keys of a request before it arrives, so that they are in the processor's cache when the request is decided. The memory
    /// serves several reads at a time, so reading the keys of several requests together takes less time.
    fn look_ahead(&self, request: &Asked<'p>) {
        let charged = &request.charged;
        for (limit, key) in charged.limits.iter().zip(&charged.keys) {
            let (limit, key) = (usize::from(*limit), *key as usize);
            self.ladders[limit].look_ahead(key);
            if let Some(used) = &self.used {
                used.look_ahead(limit, key);
            }
        }
    }

    fn arrive(&mut self, request: &Asked<'p>, at: Micros) {
        let now = at.max(self.now);
        self.advance(now);
        let charged = &request.charged;
        let numbers = charged.limits.iter().zip(&charged.keys);
        for (charge, (limit, key)) in charged.charges.iter().zip(numbers) {
            self.ladders[usize::from(*limit)].ask((charge, *key), request, now);
        }
        self.come(request, now);
    }

    /// Runs events until no remaining event decides a request. Returns false if `go_on` returned false, which ends the run early.
    pub(crate) fn finish(&mut self, go_on: &mut dyn FnMut() -> bool) -> bool {
        let mut count = 0_u64;
        while self.events.decide()
            && let Some((at, event)) = self.events.next(Micros::MAX)
        {
            count += 1;
            if count.is_multiple_of(CHECK_EVERY) && !go_on() {
                return false;
            }
            self.happen(at, event);
        }
        true
    }

    fn happen(&mut self, at: Micros, event: Event<'p>) {
        self.now = at;
        match event {
            Event::End(number) => self.end(number),
            Event::Renew(number) => self.renew(number),
            Event::Wake(key) => self.wake(&key),
            Event::Deadline(key, number) => self.give_up(&key, number),
            Event::Retry(request) => self.come(&request, at),
        }
    }

    /// Runs all events up to this time, and frees expired keys.
    fn advance(&mut self, until: Micros) {
        while let Some((at, event)) = self.events.next(until) {
            self.happen(at, event);
        }
        self.now = until;
        if self.now >= self.swept + SWEEP {
            match &mut self.used {
                Some(used) => used.sweep(self.now),
                None => self.store.sweep_at(self.now),
            }
            self.swept = self.now;
        }
    }

    /// Counts and decides a new request, or a retry of a refused request.
    fn come(&mut self, request: &Asked<'p>, now: Micros) {
        self.stats.came(request);
        let charges = &request.charged.charges;
        if charges.is_empty() {
            self.stats.ended(request, now, Ending::Admitted, (&[], 0));
            return;
        }
        let waits = charges.iter().any(|charge| charge.rule.may_wait());
        if waits && !self.queues.is_empty() && self.is_behind(request, now) {
            return;
        }
        let decision = self.decide(request, now);
        match decision.outcome {
            Outcome::Admitted => self.admit(request, &decision, now, now),
            Outcome::Refused | Outcome::Unavailable => {
                let waiting = Waiting::new(request.clone(), now);
                self.refused(waiting, &decision, now);
            }
        }
    }

    fn decide(&mut self, request: &Asked<'p>, now: Micros) -> Decision {
        if let Some(used) = &mut self.used {
            return used.decide(request, now);
        }
        let charges = request.charged.charges.iter().map(RuleCharge::charge);
        let charges: PerCharge<Charge<'_>> = charges.collect();
        self.store.decide_at(&charges, now)
    }

    /// Admits a request that arrived at `came`.
    fn admit(&mut self, request: &Asked<'p>, decision: &Decision, came: Micros, now: Micros) {
        let verdicts = request.charged.charges.iter().zip(&decision.verdicts);
        let turns = verdicts.filter(|(charge, _)| charge.rule.queues());
        let turns = turns.filter_map(|(_, verdict)| Some((*verdict)?.delay));
        let turn = turns.max().unwrap_or(0);
        let result = (&decision.verdicts[..], now - came + turn);
        self.stats.ended(request, now, Ending::Admitted, result);
        let held = held(request, decision).map(|(_, _, lease)| lease);
        if let Some(lease) = held.min() {
            // A request that was refused when it was logged has no duration, so it ends at once.
            let end = now + turn + request.service.unwrap_or(0);
            let (request, decision) = (request.clone(), decision.clone());
            let running = Running { request, decision };
            self.events.hold(running, [now, end], lease);
        }
    }

    /// Refuses a request. Its client may retry, depending on the retry model.
    fn refuse(&mut self, mut request: Asked<'p>, decision: &Decision, came: Micros, now: Micros) {
        let refusing = request.charged.charges.iter().zip(&decision.verdicts);
        let refusing = refusing.filter(|(charge, _)| !charge.limit.is_observed());
        let after = refusing.filter_map(|(_, verdict)| {
            let verdict = (*verdict)?;
            (!verdict.allowed).then_some(verdict.retry_after)
        });
        let after = after.max().unwrap_or(0);
        let again = self.retries == RetryModel::After && request.attempt < MAX_ATTEMPTS;
        let ending = match again {
            true => Ending::Later,
            false => Ending::Refused,
        };
        let result = (&decision.verdicts[..], now - came);
        self.stats.ended(&request, now, ending, result);
        if again {
            request.attempt += 1;
            // Retry-After has whole seconds, and is never 0.
            let seconds = after.div_ceil(1_000_000).max(1);
            let at = now + seconds * 1_000_000;
            self.events.push(at, Event::Retry(Box::new(request)));
        }
    }

    /// Ends the running request with this number, and its holds.
    fn end(&mut self, number: u64) {
        let Some(running) = self.events.running.remove(&number) else {
            return;
        };
        let (request, decision) = (&running.request, &running.decision);
        for (index, charge, _) in held(&running.request, &running.decision) {
            let used = request.used(charge);
            let ended = (&charge.charge(), index);
            self.store.end_at(ended, decision, used, self.now);
            let key = request.charged.key(index);
            let waits = self.queues.get(&key).is_some_and(WaitQueue::is_settling);
            if waits {
                self.events.push(self.now, Event::Wake(key));
            }
        }
    }

    fn renew(&mut self, number: u64) {
        let now = self.now;
        let Some(running) = self.events.running.get(&number) else {
            return;
        };
        let mut next = Micros::MAX;
        for (index, charge, lease) in held(&running.request, &running.decision) {
            let renewed = (&charge.charge(), index);
            self.store.renew_at(renewed, &running.decision, now);
            next = next.min(now + lease / 2);
        }
        self.events.push(next, Event::Renew(number));
    }
}

/// Returns the charges of a request that hold units while it runs: the index of each charge, the charge, and the time until its hold
/// lapses.
fn held<'a, 'p>(
    request: &'a Asked<'p>,
    decision: &'a Decision,
) -> impl Iterator<Item = (usize, &'a RuleCharge<'p>, Micros)> {
    let charges = request.charged.charges.iter().zip(&decision.verdicts);
    charges
        .enumerate()
        .filter(|(_, (_, verdict))| verdict.is_some_and(|it| it.allowed))
        .filter_map(|(index, (charge, _))| Some((index, charge, charge.limit.lease()?)))
}
