//! `block`: a key that exceeded its limit is refused for the time of the block, and not longer.

use tidegate_core::{Block, Micros};
use tidegate_store::{Mode, Via};

use super::budget::{Budget, asked_of, budget};
use super::known::{is_fresh, known, refused};
use super::refusal::{self, Refusals};
use super::{Breach, Promise};
use crate::history::{Charge, History, Request, Span};
use crate::law::Numbers;

pub(super) const LASTS: Promise = Promise {
    name: "block",
    words: "A limit with `block` admits nothing of a key from the request that exceeded it until the block ends.",
    check: |history| {
        let keys = history.keys().into_iter();
        keys.filter_map(|(limit, key)| admitted_meanwhile(history, limit, key, &LASTS))
            .collect()
    },
};

pub(super) const BEGINS: Promise = Promise {
    name: "several_block",
    words: "A limit with `block` that a request exceeds starts its block, also if another limit refuses the request.",
    check: |history| {
        let keys = history.keys().into_iter();
        keys.filter_map(|(limit, key)| admitted_meanwhile(history, limit, key, &BEGINS))
            .collect()
    },
};

pub(super) const ENDS: Promise = Promise {
    name: "block_ends",
    words: "A block ends when its time is over. With `extend: true` each refused request that the store decides starts that \
            time again; a gateway refuses without the store for a quarter of that time at most, and for a second at most.",
    check: |history| {
        let mut broken = refusal::check(history, Refusals::OfBlocks, &ENDS);
        let requests = history.requests.iter();
        broken.extend(requests.filter_map(|request| too_long(history, request)));
        broken
    },
};

/// The tolerance for answers that other requests wait for, and for a busy gateway.
const PATIENCE: Micros = 150_000;

/// The blocks of a key at a time, as far as they are known.
#[derive(Default)]
struct Blocked {
    /// The span from an answer on in which the key is surely blocked.
    surely: Option<Span>,
    /// When the refused request was sent, by this machine's clock, because the deciding clock may have been stepped back.
    asked: Micros,
    /// The latest end of a block, if there was a block.
    at_most: Micros,
    /// The latest time at which a block may have begun.
    since: Micros,
    /// The time by which a block lasts longer if the clock is stepped back meanwhile.
    back: Micros,
    /// The numbers of the requests for which the block surely lasts that long. `None`: all requests.
    of: Option<Numbers>,
}

impl Blocked {
    fn refused(&mut self, at: Span, block: Block, refusal: Refusal) {
        let until = at.begin + refusal.left;
        let surely = self.surely.map_or(0, |surely| surely.end);
        if block.extend || at.begin >= self.at_most + self.back {
            let begin = at.end;
            self.surely = Some(Span { begin, end: until });
            self.asked = refusal.asked;
            self.of = refusal.of;
        } else if at.end < surely {
            // Over several slots, the request may be refused at the end of a block, and then begin the next block.
            return;
        }
        self.maybe(at, block);
    }

    /// The block in which a request was surely admitted.
    fn meets(&self, request: &Request, charge: &Charge) -> Option<Span> {
        let is_within = |surely: &Span| {
            charge.at.begin > surely.begin
                && charge.at.end < surely.end
                && request.asked.end > self.asked
                && self.of.is_none_or(|numbers| numbers == charge.numbers)
        };
        self.surely.filter(is_within)
    }

    /// Takes the next event of the key.
    fn happened(&mut self, span: Span, block: Block, event: Event) {
        match event {
            Event::Refused(refusal) => self.refused(span, block, refusal),
            Event::Asked => self.maybe(span, block),
            Event::Forgotten(_) | Event::Stands => self.surely = None,
        }
    }

    /// A request may have been refused at this time, and may have begun a block.
    fn maybe(&mut self, at: Span, block: Block) {
        self.at_most = self.at_most.max(at.end + block.span);
        self.since = self.since.max(at.end);
    }
}

/// A refusal that a block may have begun with.
#[derive(Clone, Copy)]
struct Refusal {
    /// The least time for which the key is refused.
    left: Micros,
    /// When the request was sent, by this machine's clock.
    asked: Micros,
    /// The numbers of the requests that are refused for that long. An answer's retry-after may be about its own quota, not about the block.
    of: Option<Numbers>,
}

/// An event of a key.
enum Event {
    Refused(Refusal),
    /// A request was sent, and its result is unknown.
    Asked,
    /// Used units were lost. The value is true if this is sure.
    Forgotten(bool),
    /// The time of promises stands still from then on. A block may end meanwhile.
    Stands,
}

/// The events of a key of a budget, in their order, without the request `but`.
fn events(
    history: &History,
    limit: usize,
    key: u64,
    of: Budget,
    but: Option<&Request>,
) -> Vec<(Span, Event)> {
    let forgotten = history.forgotten(limit, key);
    // It is unknown whether a block that began meanwhile was lost too.
    let may_be_gone = |at: Span| {
        let mut forgotten = forgotten.iter();
        forgotten.any(|lost| lost.meets(at.begin, at.end)) || history.may_be_lost(at)
    };
    let event = |at: Span, refusal: Refusal| match may_be_gone(at) {
        true => (at, Event::Asked),
        false => (at, Event::Refused(refusal)),
    };
    let block = history.limits[limit].block;
    let span = block.map_or(0, |block| block.span);
    let charges = history.of(limit, key);
    let charges = charges.filter(|(request, _)| but.is_none_or(|but| !std::ptr::eq(but, *request)));
    let mut events: Vec<(Span, Event)> = charges
        .filter_map(|(request, charge)| match charge.verdict {
            // Redis may have refused the request too, after this gateway had given up.
            Some(_) if asked_of(history, request, charge) != of => (of == Budget::Shared
                && request.is_unanswered())
            .then(|| (unanswered(request), Event::Asked)),
            // A remembered refusal, with a call for another limit whose answer was lost.
            Some(_) if request.via() == Some(Via::Remembered) && request.is_unanswered() => {
                Some((unanswered(request), Event::Asked))
            }
            Some(verdict) => {
                let begins = !verdict.allowed && !verdict.settling;
                // A gateway without Redis continues a block that Redis has begun. This budget has only its retry-after. The same applies to
                // a block that began before a step of the clock, or in the first of several calls.
                let is_of_answer = history.steps.is_empty() && !history.is_split(request);
                let begins_here = history.limits[limit].mode == Mode::Local;
                let (left, of) = match of {
                    Budget::Shared if is_of_answer => (span, None),
                    _ => {
                        let of = (!begins_here).then_some(charge.numbers);
                        (span.min(verdict.retry_after), of)
                    }
                };
                let asked = request.asked.begin;
                // If the request also has limits that the gateway counts itself, its refusal may be a remembered one.
                let is_by_redis = history.mode(charge) == Mode::Exact && !charge.here;
                let is_fresh = history.in_memory || !is_by_redis || is_fresh(history, request);
                let at = decided(history, request, charge);
                begins.then(|| match is_fresh {
                    true => Some(event(at, Refusal { left, asked, of })),
                    false if request.via() == Some(Via::Remembered) => None,
                    false => Some((at, Event::Asked)),
                })?
            }
            // Redis or the gateway's own limit may have decided before the client left.
            None => Some((unanswered(request), Event::Asked)),
        })
        .collect();
    let lost = forgotten.iter();
    events.extend(lost.map(|span| (*span, Event::Forgotten(false))));
    let lost = history.surely_forgotten(limit, key).into_iter();
    events.extend(lost.map(|span| (span, Event::Forgotten(true))));
    let steps = history.steps.iter().filter(|_| history.leeway.stands);
    // All events while the time stands still have the same time. The step comes before them.
    let before = |span: Span| Span::at(span.begin - 1);
    events.extend(steps.map(|step| (before(step.span), Event::Stands)));
    events.sort_by_key(|(at, _)| (at.begin, at.end));
    events
}

/// Refused requests that surely exceeded a limit without a verdict of that limit.
fn exceeded(history: &History, limit: usize, key: u64, of: Budget) -> Vec<(Span, Event)> {
    let own = &history.limits[limit];
    let Some(block) = own.block.filter(|_| !own.reserves) else {
        return Vec::new();
    };
    let events = refused(history).filter_map(|request| {
        let mut charges = known(history, request);
        let its = charges.find(|known| known.charge.limit == limit && known.charge.key == key)?;
        let is_its = its.charge.verdict.is_none() && asked_of(history, request, its.charge) == of;
        if !is_its || !its.exceeds() {
            return None;
        }
        let Span { begin, end } = request.asked;
        let refusal = Refusal {
            left: block.span,
            asked: begin,
            of: None,
        };
        Some((Span { begin, end }, Event::Refused(refusal)))
    });
    events.collect()
}

/// The time until which the key of a request was surely blocked by events before a time.
pub(super) fn surely_until(
    history: &History,
    request: &Request,
    charge: &Charge,
    of: Budget,
    before: Micros,
) -> Micros {
    let Some(block) = history.limits[charge.limit].block else {
        return 0;
    };
    let mut blocked = Blocked::default();
    for (span, event) in events(history, charge.limit, charge.key, of, Some(request)) {
        if span.end < before || !matches!(event, Event::Refused(_)) {
            blocked.happened(span, block, event);
        }
    }
    let surely = blocked.surely.filter(|_| blocked.of.is_none());
    surely.map_or(0, |surely| surely.end)
}

/// Finds a refusal that a gateway repeated for too long, so that the block was not prolonged.
fn too_long(history: &History, request: &Request) -> Option<Breach> {
    if request.via() != Some(Via::Remembered) || !history.steps.is_empty() {
        return None;
    }
    request.charges.iter().find_map(|charge| {
        let block = history.limits[charge.limit].block?;
        let is_here = charge.here || history.in_memory || history.mode(charge) != Mode::Exact;
        if is_here || !block.extend || charge.verdict?.allowed {
            return None;
        }
        let is_answer = |other: &&Request| {
            let of_it = |own: &Charge| own.limit == charge.limit && own.key == charge.key;
            other.gateway == request.gateway
                && matches!(other.via(), Some(Via::Store | Via::Here))
                && other.charges.iter().any(of_it)
        };
        let answers = history.requests.iter().filter(is_answer);
        let answers = answers.filter(|other| other.asked.begin <= request.asked.end);
        let last = answers.map(|other| other.asked.end).max()?;
        let most = 1_000_000.min(block.span / 4) + PATIENCE;
        let age = request.asked.begin.saturating_sub(last);
        let mut troubles = history.troubles_of(request.gateway);
        (age > most && !troubles.any(|trouble| trouble.meets(last, request.asked.end))).then(|| {
            Breach {
                promise: ENDS.name,
                limit: charge.limit,
                key: Some(charge.key),
                span: request.asked,
                what: format!("refused without the store {age} us after its answer"),
            }
        })
    })
}

/// The time at which a refusal began a block. Over several slots, this is after the check.
fn decided(history: &History, request: &Request, charge: &Charge) -> Span {
    let begin = charge.at.begin;
    let end = if history.is_split(request) {
        charge.at.end.max(request.asked.end)
    } else {
        charge.at.end
    };
    Span { begin, end }
}

fn unanswered(request: &Request) -> Span {
    let Span { begin, end } = request.asked;
    let end = end.max(request.given_up);
    Span { begin, end }
}

/// Whether Redis may have blocked a key when a request was refused. The answer may lack resets of the last `age` us.
pub(super) fn may_last(
    history: &History,
    limit: usize,
    key: u64,
    but: Option<&Request>,
    at: Span,
    age: Micros,
) -> bool {
    let Some(block) = history.limits[limit].block else {
        return false;
    };
    let mut blocked = Blocked::default();
    for (span, event) in events(history, limit, key, Budget::Shared, but) {
        if span.begin > at.end {
            break;
        }
        match event {
            Event::Forgotten(true) if blocked.since < span.begin && span.end + age < at.begin => {
                blocked = Blocked::default();
            }
            event => blocked.happened(span, block, event),
        }
    }
    at.begin < blocked.at_most
}

/// Finds a request that was admitted while its key was blocked.
fn admitted_meanwhile(
    history: &History,
    limit: usize,
    key: u64,
    promise: &Promise,
) -> Option<Breach> {
    let block = history.limits[limit].block?;
    let mut budgets: Vec<Budget> = Vec::new();
    for (request, charge) in history.of(limit, key) {
        let of = asked_of(history, request, charge);
        if !budgets.contains(&of) {
            budgets.push(of);
        }
    }
    let breach = |at: Span, surely: Span| Breach {
        promise: promise.name,
        limit,
        key: Some(key),
        span: at,
        what: format!("admitted {} us before a block ends", surely.end - at.end),
    };
    budgets.into_iter().find_map(|of| {
        let admitted = history.of(limit, key);
        let mut admitted: Vec<(&Request, &Charge)> = admitted
            .filter(|(request, charge)| budget(history, request, charge) == Some(of))
            .collect();
        admitted.sort_by_key(|(_, charge)| charge.at.begin);
        let mut admitted = admitted.into_iter().peekable();
        let mut blocked = Blocked {
            back: history.leeway.back,
            ..Blocked::default()
        };
        let is_of_others = promise.name == BEGINS.name;
        let mut events = events(history, limit, key, of, None);
        if is_of_others {
            events.extend(exceeded(history, limit, key, of));
            events.sort_by_key(|(at, _)| (at.begin, at.end));
        }
        for (span, event) in events {
            while let Some((request, charge)) =
                admitted.next_if(|(_, charge)| charge.at.begin <= span.begin)
            {
                if let Some(surely) = blocked.meets(request, charge) {
                    return Some(breach(charge.at, surely));
                }
            }
            blocked.happened(span, block, event);
        }
        admitted.find_map(|(request, charge)| {
            let surely = blocked.meets(request, charge)?;
            Some(breach(charge.at, surely))
        })
    })
}
