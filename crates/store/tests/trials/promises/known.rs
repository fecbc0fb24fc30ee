//! The charges that a gateway must take into account when it refuses a request: it has their answers, or must call Redis for them.

use tidegate_core::Micros;
use tidegate_store::{Mode, Via};

use super::block;
use super::budget::Budget;
use super::used::{Question, used};
use crate::history::{Charge, History, Request, Span};
use crate::law::Kind;

/// A second, in us. A gateway uses an answer of Redis for this time.
pub(super) const SECOND: Micros = 1_000_000;

/// The tolerance for the time of an answer.
const SLACK: Micros = 100_000;

/// A charge of a refused request that its gateway has to take into account.
pub(super) struct Known<'a> {
    history: &'a History,
    request: &'a Request,
    pub(super) charge: &'a Charge,
    /// Only charges that were surely made before this time count.
    before: Micros,
    /// Only charges in this budget count.
    budget: Budget,
    /// Only charges by this gateway count. `None`: charges by all gateways.
    gateway: Option<usize>,
}

/// Most refused requests of a trial that are checked. Each is compared with all requests, which takes time.
const MOST: usize = 300;

/// The refused requests of a trial. If there are very many, every n-th of them.
pub(super) fn refused(history: &History) -> impl Iterator<Item = &Request> {
    let refused = || {
        history
            .requests
            .iter()
            .filter(|request| request.is_refused())
    };
    let step = refused().count() / MOST + 1;
    refused().step_by(step)
}

/// The charges of a refused request that its gateway must take into account.
pub(super) fn known<'a>(
    history: &'a History,
    request: &'a Request,
) -> impl Iterator<Item = Known<'a>> {
    let is_judged = request.is_refused()
        && !request.is_unanswered()
        && request.via() != Some(Via::Fallback)
        && !history.is_split(request)
        && history.steps.is_empty();
    let charges = request.charges.iter().filter(move |_| is_judged);
    charges.filter_map(|charge| {
        let (before, budget, gateway) = scope(history, request, charge)?;
        Some(Known {
            history,
            request,
            charge,
            before,
            budget,
            gateway,
        })
    })
}

type Scope = (Micros, Budget, Option<usize>);

fn scope(history: &History, request: &Request, charge: &Charge) -> Option<Scope> {
    let limit = &history.limits[charge.limit];
    if limit.is_observed || limit.kind == Kind::Concurrency || limit.becomes.is_some() {
        return None;
    }
    let (begin, gateway) = (request.asked.begin, request.gateway);
    let is_named = charge.verdict.is_some_and(|verdict| !verdict.allowed);
    if history.in_memory {
        return Some((begin, Budget::Shared, None));
    }
    match history.mode(charge) {
        Mode::Local => Some((begin, Budget::Alone(gateway), None)),
        // After a failed exchange, `on_failure` decides until an exchange succeeds.
        Mode::Synced if !is_named && has_trouble(history, request) => None,
        Mode::Synced => Some((begin, Budget::Shared, Some(gateway))),
        // A refusal of a leased limit may be a second old.
        Mode::Leased => {
            (is_named && request.via() == Some(Via::Store)).then_some((begin, Budget::Shared, None))
        }
        Mode::Exact => {
            let before = before(history, request, charge)?;
            Some((before, Budget::Shared, None))
        }
    }
}

/// Whether the gateway of a request was in trouble in the second before the request.
fn has_trouble(history: &History, request: &Request) -> bool {
    let begin = request.asked.begin.saturating_sub(SECOND + SLACK);
    let mut troubles = history.troubles_of(request.gateway);
    troubles.any(|trouble| trouble.meets(begin, request.asked.end))
}

/// The time until which the gateway has all charges to an exact limit. `None` if it has no answer that it may use.
fn before(history: &History, request: &Request, charge: &Charge) -> Option<Micros> {
    if is_fresh(history, request) && charge.verdict.is_some() && !charge.here {
        return Some(charge.at.begin);
    }
    let begin = request.asked.begin;
    // Without Redis, the gateway has no current answer.
    if has_trouble(history, request) {
        return None;
    }
    let is_kept_here = |other: &Charge| history.mode(other) != Mode::Exact;
    // A remembered refusal of an exact limit is checked first, and needs no call.
    let is_first = request.via() != Some(Via::Remembered);
    let is_mixed = is_first && request.charges.iter().any(is_kept_here);
    let block = history.limits[charge.limit].block;
    if is_being_asked(history, request, charge) {
        // The answer of that request has not arrived yet.
        return None;
    }
    let Some((answered, last, is_hidden)) = last_answer(history, request, charge) else {
        // A gateway calls Redis at most once a second for a key, even if the numbers differ.
        let mut own = history.of(charge.limit, charge.key);
        let is_changed = own.any(|(_, own)| own.numbers != charge.numbers);
        return (is_mixed && !is_changed).then_some(begin);
    };
    if is_hidden || answered.asked.end > begin {
        // The order of the two requests is unknown.
        return None;
    }
    let verdict = last.verdict?;
    let age = begin - answered.asked.begin;
    let is_final = !history.limits[charge.limit].reserves;
    if verdict.allowed {
        let leaves_nothing = verdict.remaining < charge.cost && is_final;
        // The last answer was an admission. It counts only if it left no room, and is not old.
        return (leaves_nothing && age < SECOND).then_some(last.at.begin + 1);
    }
    let most = match block {
        Some(block) if block.extend => SECOND.min(block.span / 4),
        _ => SECOND,
    };
    let holds = last.cost <= charge.cost
        && age < most
        && request.asked.end < answered.asked.begin + verdict.retry_after;
    (holds && is_final).then_some(last.at.begin)
}

/// Whether another request at the same gateway may be waiting for an answer about a key, or left before the answer within the last second.
fn is_being_asked(history: &History, request: &Request, charge: &Charge) -> bool {
    let mut own = history.of(charge.limit, charge.key);
    own.any(|(other, _)| {
        let is_other = !std::ptr::eq(other, request) && other.gateway == request.gateway;
        let lasts = match other.is_unanswered() {
            true => SECOND + SLACK,
            false => 0,
        };
        let begin = request.asked.begin.saturating_sub(lasts);
        is_other && other.asked.meets(begin, request.asked.end)
    })
}

/// Whether Redis decided the exact limits for this request, and not for an earlier request.
pub(super) fn is_fresh(history: &History, request: &Request) -> bool {
    let is_leased = |charge: &Charge| history.mode(charge) == Mode::Leased;
    let is_asked = match request.via() {
        Some(Via::Store) => true,
        // If a limit that the gateway counts itself refuses, exact limits are checked by a call.
        Some(Via::Here) => request.called,
        _ => false,
    };
    is_asked && !request.charges.iter().any(is_leased)
}

/// The last answer of Redis to this gateway about a key, by the same numbers. The flag is true if there was a later answer that the history
/// does not show.
fn last_answer<'a>(
    history: &'a History,
    request: &Request,
    charge: &Charge,
) -> Option<(&'a Request, &'a Charge, bool)> {
    let same = |other: &&'a Request| {
        other.gateway == request.gateway && other.asked.begin < request.asked.begin
    };
    let answers = history.requests.iter().filter(same);
    let answers = answers.filter_map(|other| {
        let mut own = other.charges.iter();
        let own = own.find(|own| {
            own.limit == charge.limit && own.key == charge.key && own.numbers == charge.numbers
        })?;
        (own.verdict.is_some() && !own.here).then_some((other, own))
    });
    let is_refusal = |own: &Charge| own.verdict.is_some_and(|verdict| !verdict.allowed);
    // A remembered refusal comes from an older answer.
    let is_old = |other: &Request, own: &Charge| is_refusal(own) && !is_fresh(history, other);
    let new = answers.clone().filter(|(other, own)| !is_old(other, own));
    let Some(last) = new.max_by_key(|(other, _)| other.asked.end) else {
        let mut old = answers;
        return old.next().map(|(other, own)| (other, own, true));
    };
    let mut later = answers.filter(|(other, _)| other.asked.end > last.0.asked.end);
    // A later answer came to a request that does not show it.
    let is_hidden = later.next().is_some() && !is_refusal(last.1);
    Some((last.0, last.1, is_hidden))
}

impl Known<'_> {
    /// The most by which the gateway's estimate of Redis's clock may be ahead. This is the time of a call.
    pub(super) fn ahead(&self) -> Micros {
        let is_synced = self.history.mode(self.charge) == Mode::Synced && !self.history.in_memory;
        let mut troubles = self.history.troubles_of(self.request.gateway);
        match (is_synced, troubles.next()) {
            (false, _) => 0,
            (true, None) => SLACK,
            (true, Some(_)) => SECOND,
        }
    }

    /// Whether the limit is one of the limits that refuse.
    pub(super) fn is_named(&self) -> bool {
        self.charge.verdict.is_some_and(|verdict| !verdict.allowed)
    }

    /// Why the request surely does not fit at this time, even without other requests meanwhile. `None` if it may fit.
    pub(super) fn is_full_at(&self, at: Micros) -> Option<String> {
        if let Some(used) = self.used_up(at) {
            return Some(used);
        }
        let Self {
            history,
            request,
            charge,
            ..
        } = *self;
        let until = block::surely_until(history, request, charge, self.budget, self.before);
        (until > at).then(|| format!("blocked for {} us more", until - at))
    }

    /// Whether the request surely did not fit into what was left when it was decided.
    pub(super) fn exceeds(&self) -> bool {
        self.used_up(self.decided()).is_some()
    }

    /// The used units at this time, as text, if the request surely does not fit into what is left.
    fn used_up(&self, at: Micros) -> Option<String> {
        let Self {
            history,
            request,
            charge,
            ..
        } = *self;
        let question = Question {
            but: Some(request),
            before: Some(self.before),
            budget: self.budget,
            gateway: self.gateway,
            ..Question::new(charge.limit, charge.key, Span::at(at), charge.numbers)
        };
        let least = used(history, &question).least;
        let limit = charge.numbers.limit;
        let is_full = least + charge.cost as f64 > limit as f64 + 0.02;
        is_full.then(|| format!("{least:.2} of {limit} used"))
    }

    /// Why the request surely did not fit when it was decided, even if the clock of its gateway is ahead.
    pub(super) fn is_full(&self) -> Option<String> {
        self.is_full_at(self.decided() + self.ahead())?;
        self.is_full_at(self.decided())
    }

    fn decided(&self) -> Micros {
        let is_by_redis = !self.history.in_memory
            && self.request.via() == Some(Via::Store)
            && self.charge.verdict.is_some()
            && !self.charge.here;
        match is_by_redis {
            true => self.charge.at.end,
            false => self.request.asked.end,
        }
    }
}
