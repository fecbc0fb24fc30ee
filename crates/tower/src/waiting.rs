//! Requests that wait: for a limit to let them through, and for their turn in a queue.
//!
//! A request over a limit that delays stands in a line ([`crate::wait_queues`]), sleeps until its retry-after, and asks again. One
//! that only other requests' unsettled reservations stand in the way of does the same, for a second at most, until one of
//! them is settled. A request that a leaky bucket admitted sleeps until its turn. Nobody is charged for waiting in a line; and
//! a client that leaves is gone from it at once. What it was given while it left, it gives back.

mod reply;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::Verdict;
use tidegate_store::{
    Charge, Decision, Outcome, Outlook, PerCharge, Settlements, Source, Store, Via,
};
use tokio::time::{sleep, sleep_until, timeout};

use crate::Rule;
use crate::charges::{Demand, Demands, SETTLING, Until};
use crate::shares::Permit;
use crate::wait_queues::{Heard, Lines, Place};

pub(crate) use reply::Asked;

/// The shortest sleep.
const SHORTEST: Duration = Duration::from_millis(1);

/// Where all of it happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hall<'a> {
    pub(crate) store: &'a Store,
    pub(crate) lines: &'a Lines,
    pub(crate) rules: &'a Arc<[Rule]>,
    /// Where the request comes from.
    pub(crate) address: IpAddr,
    /// Whether an admitted request may hold something, or a place in a queue.
    pub(crate) holds: bool,
}

impl Hall<'_> {
    /// Decides a request, which may wait for that; how long it did.
    pub(crate) async fn decide(&self, demands: &Demands<'_>) -> (Asked, Duration) {
        let began = Instant::now();
        let mut waited = Duration::ZERO;
        let mut place = match self.behind(demands) {
            Behind::Nobody => None,
            Behind::Others(nth, place) => Some((nth, place)),
            Behind::TooMany(refusal) => return (Asked::from(*refusal), waited),
        };
        let mut watched: Option<Watched> = None;
        loop {
            if let Some((nth, place)) = &place {
                let patience = demands[*nth].patience().saturating_sub(began.elapsed());
                let came = timeout(patience, place.first()).await;
                waited = began.elapsed();
                // As long as it stands there, there is a line.
                if came.is_err()
                    && let Some(heard) = place.heard()
                {
                    let refusal = refusal(demands, *nth, heard, Duration::ZERO);
                    return (refusal.into(), waited);
                }
            }
            if watched.is_none()
                && let Some((nth, place)) = &place
                && place.heard().is_some_and(|heard| heard.verdict.settling)
            {
                watched = Some(self.watch(*nth, &demands[*nth]));
            }
            // A settlement from here on is noticed.
            let settled = watched.as_ref().map(|watched| watched.settlements.next());
            let asked = self.ask(demands).await;
            let decision = &asked.decision;
            let Some((nth, verdict, until)) = longest(demands, decision, began.elapsed()) else {
                return (asked, waited);
            };
            let heard = Heard {
                verdict: *verdict,
                now: decision.now,
                came: Instant::now(),
            };
            let demand = &demands[nth];
            let stays = place
                .take()
                .filter(|(_, place)| *place.key() == demand.key());
            let joined = match stays {
                Some((_, place)) => place,
                None => match self
                    .lines
                    .join(demand.key(), self.address, demand.cost, heard)
                {
                    Some(place) if demand.is_worth(began, until, place.ahead) => place,
                    _ => return (asked, waited),
                },
            };
            if joined.is_head() {
                joined.hear(heard);
                match (until, &mut watched, settled) {
                    (Until::Over(left), ..) => sleep(left.max(SHORTEST)).await,
                    (Until::Settled, Some(watched), Some(settled)) if watched.nth == nth => {
                        let left = SETTLING.saturating_sub(began.elapsed());
                        let others = self.store.is_shared(demand.limit);
                        let spread = demand.subject.tag[0];
                        let retries = self.lines.retries();
                        let pause = retries.pause(verdict, left, watched.calls, others, spread);
                        watched.calls += 1;
                        drop(timeout(pause.max(SHORTEST), settled).await);
                    }
                    // What was settled before is not heard of: the store is asked once more, at once.
                    (Until::Settled, ..) => watched = Some(self.watch(nth, demand)),
                }
            }
            place = Some((nth, joined));
        }
    }

    /// Hears of settlements under the key of this demand, from now on.
    fn watch(&self, nth: usize, demand: &Demand<'_>) -> Watched {
        Watched {
            nth,
            settlements: self.store.settlements(demand.limit, demand.subject),
            calls: 0,
        }
    }

    /// Joins the end of the first line that there is at one of these limits.
    fn behind(&self, demands: &Demands<'_>) -> Behind {
        if self.lines.waiting() == 0 {
            return Behind::Nobody;
        }
        for (nth, demand) in demands.iter().enumerate() {
            if !demand.rule.may_wait() {
                continue;
            }
            let key = demand.key();
            let Some(heard) = self.lines.heard(&key) else {
                continue;
            };
            let Some(place) = self.lines.join(key, self.address, demand.cost, heard) else {
                return Behind::TooMany(refusal(demands, nth, heard, Duration::ZERO).into());
            };
            let ahead = demand.pace(place.ahead);
            if !heard.verdict.settling && heard.left() + ahead > demand.patience() {
                return Behind::TooMany(refusal(demands, nth, heard, ahead).into());
            }
            return Behind::Others(nth, place);
        }
        Behind::Nobody
    }

    /// Takes room to wait for a turn in a queue, before the request is charged to anything. If there is no room, a request
    /// whose turn is at once goes on without; any other is refused.
    pub(crate) async fn room(&self, demands: &Demands<'_>) -> Result<Room, Box<Decision>> {
        let queues = |demand: &&Demand<'_>| demand.rule.queues();
        if !demands.iter().any(|demand| queues(&demand)) {
            return Ok(Room(None));
        }
        if let Some(seat) = self.lines.seat(self.address) {
            return Ok(Room(Some(seat)));
        }
        let charges = demands.iter().filter(queues).map(Demand::charge);
        let charges: PerCharge<Charge<'_>> = charges.collect();
        let outlooks = self.store.peek(&charges).await;
        // Without the store this process decides.
        let outlooks = outlooks.unwrap_or_else(|_| self.store.memory().peek(&charges));
        let waits = |outlook: &Outlook| outlook.verdict.allowed && outlook.verdict.delay > 0;
        match outlooks.iter().any(waits) {
            true => Err(Box::new(turned_away(demands, &outlooks))),
            false => Ok(Room(None)),
        }
    }

    /// Waits until it is the turn of a request that was admitted just now; how long it did.
    pub(crate) async fn turn(
        &self,
        demands: &Demands<'_>,
        room: Room,
        asked: &mut Asked,
    ) -> Duration {
        let came = Instant::now();
        let decision = &asked.decision;
        let said = decision.verdicts.iter().zip(&decision.sources);
        let queues = demands.iter().zip(said);
        let queues = queues.filter(|(demand, _)| demand.rule.queues());
        let turns = queues.filter_map(|(demand, (verdict, source))| {
            let delay = verdict.as_ref()?.delay;
            Some((delay, demand, source.at + delay))
        });
        let last = turns.max_by_key(|(delay, ..)| *delay);
        let admitted = decision.outcome == Outcome::Admitted;
        let Some((delay, demand, turn)) = last.filter(|(delay, ..)| admitted && *delay > 0) else {
            asked.go_on();
            return Duration::ZERO;
        };
        let Room(seat) = room;
        // Without room its turn was to be at once. Another request came between, and this one has been charged.
        let seat = seat.unwrap_or_else(|| self.lines.seat_beyond(self.address));
        let Some(place) = self.lines.join_queue(demand.queue_key(), seat, turn) else {
            // A queue bounds itself.
            asked.go_on();
            return Duration::ZERO;
        };
        sleep_until((came + Duration::from_micros(delay)).into()).await;
        // Those whose turns were before may be late.
        place.first().await;
        let distance = place.distance();
        // A timer knows no less, and a faster queue has to catch up.
        if distance >= SHORTEST {
            sleep(distance).await;
        }
        place.go();
        asked.go_on();
        came.elapsed()
    }
}

/// Room for a request that may have to wait for its turn in a queue.
pub(crate) struct Room(Option<Permit>);

/// The settlements that the head of a line waits for.
struct Watched {
    /// The number of the limit among the demands.
    nth: usize,
    settlements: Settlements,
    /// How often the store was asked without having heard of one.
    calls: u32,
}

/// Who stands in the line that a request has to join.
enum Behind {
    Nobody,
    /// At the limit with this number, others.
    Others(usize, Place),
    /// So many that it is refused.
    TooMany(Box<Decision>),
}

/// The limit that the request has to wait for the longest, by its number, what it said, and until when; nothing if it need
/// not wait, or in vain.
fn longest<'d>(
    demands: &Demands<'_>,
    decision: &'d Decision,
    waited: Duration,
) -> Option<(usize, &'d Verdict, Until)> {
    if decision.outcome != Outcome::Refused {
        return None;
    }
    let mut longest = None;
    for (nth, (demand, verdict)) in demands.iter().zip(&decision.verdicts).enumerate() {
        let refused = verdict.as_ref().filter(|verdict| !verdict.allowed);
        let Some(verdict) = refused.filter(|_| !demand.limit.is_observed()) else {
            continue;
        };
        let until = demand.wait(verdict, waited)?;
        if longest.is_none_or(|(_, _, known)| known < until) {
            longest = Some((nth, verdict, until));
        }
    }
    longest
}

/// A refusal by what was heard in the line of the limit with this number: the others were not asked.
fn refusal(demands: &Demands<'_>, nth: usize, heard: Heard, ahead: Duration) -> Decision {
    let (verdict, now) = heard.refusal(heard.left() + ahead);
    let said = |place| (place == nth).then_some(verdict);
    let source = Source {
        at: now,
        here: false,
        hold: 0,
    };
    Decision {
        outcome: Outcome::Refused,
        via: Via::Remembered,
        now,
        verdicts: (0..demands.len()).map(said).collect(),
        sources: demands.iter().map(|_| source).collect(),
        call: None,
    }
}

/// The refusal of a request for which there is no room to wait, until the time that would be its turn. The limits with queues
/// were looked at, and no limit was charged.
fn turned_away(demands: &Demands<'_>, outlooks: &[Outlook]) -> Decision {
    let mut looked = outlooks.iter();
    let mut outlook = |demand: &Demand<'_>| demand.rule.queues().then(|| looked.next()).flatten();
    let looked: PerCharge<Option<&Outlook>> = demands.iter().map(&mut outlook).collect();
    let now = outlooks.iter().map(|outlook| outlook.now).max();
    let verdict = |outlook: &Outlook| Verdict {
        allowed: false,
        retry_after: outlook.verdict.delay.max(outlook.verdict.retry_after),
        ..outlook.verdict
    };
    Decision {
        outcome: Outcome::Refused,
        via: Via::Here,
        now: now.unwrap_or_default(),
        verdicts: looked.iter().map(|outlook| outlook.map(verdict)).collect(),
        sources: looked
            .iter()
            .map(|outlook| Source {
                at: outlook.map_or(0, |outlook| outlook.now),
                here: false,
                hold: 0,
            })
            .collect(),
        call: None,
    }
}
