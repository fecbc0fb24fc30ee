//! Requests that wait: until a limit admits them, or until their turn in a `queue`.
//!
//! If a limit with the action `delay` refuses a request, the request enters a wait queue ([`crate::wait_queues`]). It sleeps until its
//! retry time, and calls the store again. A request that would fit without the holds of other requests enters a wait queue as well. Such a
//! request waits for a hold to end, for at most a second. A request that a leaky bucket admitted sleeps until its turn. Waiting in a wait
//! queue makes no charge. If a client leaves, its request leaves the wait queue at once, and all its holds end.

mod reply;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::{HoldId, Micros, Verdict};
use tidegate_store::{
    Charge, Decision, Outcome, Outlook, PerCharge, SettlementWatch, Source, Store, Via,
};
use tokio::time::{sleep, sleep_until, timeout};

use crate::Rule;
use crate::charges::{RuleCharge, RuleCharges, SETTLING, Until};
use crate::shares::Permit;
use crate::wait_queues::{LastRefusal, Sender, WaitQueues, Waiter};

pub(crate) use reply::Reply;

/// The shortest time that a waiting request sleeps.
const SHORTEST: Duration = Duration::from_millis(1);

/// The context in which a request calls the store and waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission<'a> {
    pub(crate) store: &'a Store,
    pub(crate) wait_queues: &'a WaitQueues,
    pub(crate) rules: &'a Arc<[Rule]>,
    pub(crate) sender: Sender,
    /// Whether an admitted request may have holds.
    pub(crate) holds: bool,
    /// The longest time that a decision waits for the store, if the client waits for less than the store's timeout.
    pub(crate) within: Option<Duration>,
}

impl Admission<'_> {
    /// Decides a request, which may have to wait until it is admitted. Returns the decision, and the time that the request waited.
    pub(crate) async fn decide(&self, rule_charges: &RuleCharges<'_>) -> (Reply, Duration) {
        let began = Instant::now();
        let mut waited = Duration::ZERO;
        let mut waiter = match self.behind(rule_charges) {
            Ok(waiter) => waiter,
            Err(refusal) => return (Reply::from(*refusal), waited),
        };
        let mut watched: Option<Watched> = None;
        loop {
            if let Some((nth, waiter)) = &waiter {
                let longest = rule_charges[*nth]
                    .max_wait()
                    .saturating_sub(began.elapsed());
                let came = timeout(longest, waiter.first()).await;
                waited = began.elapsed();
                // While this request waits in the wait queue, the wait queue exists and has a last refusal.
                if came.is_err()
                    && let Some(last_refusal) = waiter.last_refusal()
                {
                    let refusal = refusal(rule_charges, *nth, last_refusal, Duration::ZERO);
                    return (refusal.into(), waited);
                }
            }
            if watched.is_none()
                && let Some((nth, waiter)) = &waiter
                && waiter
                    .last_refusal()
                    .is_some_and(|last_refusal| last_refusal.verdict.settling)
            {
                watched = Some(self.watch(*nth, &rule_charges[*nth]));
            }
            // The watch starts before the call, so that the end of a hold during the call is not missed.
            let settled = watched.as_ref().map(|watched| watched.settlements.next());
            let reply = self.ask(rule_charges).await;
            let decision = &reply.decision;
            let Some((nth, verdict, until)) = longest(rule_charges, decision, began.elapsed())
            else {
                return (reply, waited);
            };
            let rule_charge = &rule_charges[nth];
            let last_refusal = LastRefusal {
                verdict: Verdict {
                    settling: rule_charge.is_settling(verdict),
                    ..*verdict
                },
                now: decision.now,
                came: Instant::now(),
            };
            let stays = waiter
                .take()
                .filter(|(_, waiter)| waiter.key == rule_charge.wait_key());
            let join = || {
                let (key, cost) = (rule_charge.wait_key(), rule_charge.cost);
                let joined = self
                    .wait_queues
                    .join(key, self.sender, cost, last_refusal)?;
                let is_worth = rule_charge.is_worth(began, until, joined.ahead);
                is_worth.then_some(joined)
            };
            let Some(joined) = stays.map(|(_, waiter)| waiter).or_else(join) else {
                return (reply, waited);
            };
            if joined.is_head() {
                joined.note_refusal(last_refusal);
                match (until, &mut watched, settled) {
                    (Until::Over(left), ..) => sleep(left.max(SHORTEST)).await,
                    (Until::Settled, Some(watched), Some(settled)) if watched.nth == nth => {
                        let left = SETTLING.saturating_sub(began.elapsed());
                        let others = self.store.is_shared(rule_charge.limit);
                        let spread = rule_charge.key.tag[0];
                        let retries = self.wait_queues.retries();
                        let pause = retries.pause(verdict, left, watched.calls, others, spread);
                        watched.calls += 1;
                        drop(timeout(pause.max(SHORTEST), settled).await);
                    }
                    // Holds that ended before the watch started were missed, so the request calls the store again at once.
                    (Until::Settled, ..) => watched = Some(self.watch(nth, rule_charge)),
                }
            }
            waiter = Some((nth, joined));
        }
    }

    /// Starts to watch the ends of holds under the key of this charge.
    fn watch(&self, nth: usize, rule_charge: &RuleCharge<'_>) -> Watched {
        Watched {
            nth,
            settlements: self.store.settlements(rule_charge.limit, rule_charge.key),
            calls: 0,
        }
    }

    /// Joins the end of the first wait queue that exists for any of these charges. Returns the charge's index, and the request's entry in
    /// the wait queue. `None` if no wait queue exists. Refuses the request if the wait queue is full, or if the request's turn would come
    /// too late.
    fn behind(
        &self,
        rule_charges: &RuleCharges<'_>,
    ) -> Result<Option<(usize, Waiter)>, Box<Decision>> {
        if self.wait_queues.waiting() == 0 {
            return Ok(None);
        }
        for (nth, rule_charge) in rule_charges.iter().enumerate() {
            if !rule_charge.rule.may_wait() {
                continue;
            }
            let key = rule_charge.wait_key();
            let Some(last_refusal) = self.wait_queues.last_refusal(&key) else {
                continue;
            };
            let refused = |ahead| Box::new(refusal(rule_charges, nth, last_refusal, ahead));
            let waiter = self
                .wait_queues
                .join(key, self.sender, rule_charge.cost, last_refusal)
                .ok_or_else(|| refused(Duration::ZERO))?;
            let ahead = rule_charge.pace(waiter.ahead);
            let is_late = last_refusal.left() + ahead > rule_charge.max_wait();
            if is_late && !last_refusal.verdict.settling {
                return Err(refused(ahead));
            }
            return Ok(Some((nth, waiter)));
        }
        Ok(None)
    }

    /// Takes a permit to wait for a turn in a `queue`, before the request is charged. If no permit is left, a request that would have to
    /// wait is refused. A request that need not wait gets no permit, and is not refused.
    pub(crate) async fn room(
        &self,
        rule_charges: &RuleCharges<'_>,
    ) -> Result<Option<Permit>, Box<Decision>> {
        let queues = |rule_charge: &&RuleCharge<'_>| rule_charge.rule.queues();
        if !rule_charges.iter().any(|rule_charge| queues(&rule_charge)) {
            return Ok(None);
        }
        if let Some(permit) = self.wait_queues.permit(self.sender) {
            return Ok(Some(permit));
        }
        let charges = rule_charges.iter().filter(queues).map(RuleCharge::charge);
        let charges: PerCharge<Charge<'_>> = charges.collect();
        let outlooks = self.store.peek(&charges).await;
        // If Redis does not answer, the state in this process is read instead.
        let outlooks = outlooks.unwrap_or_else(|_| self.store.memory().peek(&charges));
        let waits = |outlook: &Outlook| outlook.verdict.allowed && outlook.verdict.delay > 0;
        match outlooks.iter().any(waits) {
            true => Err(Box::new(turned_away(rule_charges, &outlooks))),
            false => Ok(None),
        }
    }

    /// Waits for the turn of a request that was just admitted. Returns the time that it waited.
    pub(crate) async fn turn(
        &self,
        rule_charges: &RuleCharges<'_>,
        permit: Option<Permit>,
        decision: &Decision,
    ) -> Duration {
        let came = Instant::now();
        let verdicts = decision.verdicts.iter().zip(&decision.sources);
        let queues = rule_charges.iter().zip(verdicts);
        let queues = queues.filter(|(rule_charge, _)| rule_charge.rule.queues());
        let turns = queues.filter_map(|(rule_charge, (verdict, source))| {
            let delay = verdict.as_ref()?.delay;
            Some((delay, rule_charge, source.at + delay))
        });
        let last = turns.max_by_key(|(delay, ..)| *delay);
        let admitted = decision.outcome == Outcome::Admitted;
        let Some((delay, rule_charge, turn)) = last.filter(|(delay, ..)| admitted && *delay > 0)
        else {
            return Duration::ZERO;
        };
        // A request without a permit did not have to wait when `room` read the limits. Since that call, another request was admitted first.
        // This request is already charged, so it gets a permit beyond the bound.
        let permit = permit.unwrap_or_else(|| self.wait_queues.permit_beyond(self.sender));
        let Some(waiter) = self
            .wait_queues
            .join_queue(rule_charge.queue_key(), permit, turn)
        else {
            // Never the case: this wait queue has no bound of its own, because the limit bounds a `queue`.
            return Duration::ZERO;
        };
        sleep_until((came + Duration::from_micros(delay)).into()).await;
        // Requests with earlier turns may be late.
        waiter.first().await;
        let distance = waiter.distance();
        // A sleep takes at least `SHORTEST`. A `queue` with shorter distances must not sleep, because its requests could not catch up with
        // their turns.
        if distance >= SHORTEST {
            sleep(distance).await;
        }
        waiter.go();
        came.elapsed()
    }
}

/// A watch on the ends of holds, for the head of a wait queue.
struct Watched {
    /// The index of the limit among the charges.
    nth: usize,
    settlements: SettlementWatch,
    /// The number of calls to the store since the watch started.
    calls: u32,
}

/// Returns the limit for which the request has to wait the longest: its index, its verdict, and the event to wait for. `None` if the
/// request need not wait, or if waiting cannot help.
fn longest<'d>(
    rule_charges: &RuleCharges<'_>,
    decision: &'d Decision,
    waited: Duration,
) -> Option<(usize, &'d Verdict, Until)> {
    if decision.outcome != Outcome::Refused {
        return None;
    }
    let mut longest = None;
    for (nth, (rule_charge, verdict)) in rule_charges.iter().zip(&decision.verdicts).enumerate() {
        let refused = verdict.as_ref().filter(|verdict| !verdict.allowed);
        let Some(verdict) = refused.filter(|_| !rule_charge.limit.is_observed()) else {
            continue;
        };
        let until = rule_charge.wait(verdict, waited)?;
        if longest.is_none_or(|(_, _, other)| other < until) {
            longest = Some((nth, verdict, until));
        }
    }
    longest
}

/// Makes a refusal from the last refusal in the wait queue of charge `nth`. `ahead` is the time until the requests before this request are
/// admitted, and is added to the retry time. The other limits have no verdict, because they were not checked.
fn refusal(
    rule_charges: &RuleCharges<'_>,
    nth: usize,
    last_refusal: LastRefusal,
    ahead: Duration,
) -> Decision {
    let (verdict, now) = last_refusal.refusal(last_refusal.left() + ahead);
    let verdicts = (0..rule_charges.len()).map(|other| ((other == nth).then_some(verdict), now));
    uncharged(Via::Remembered, now, verdicts)
}

/// Makes the refusal of a request that got no permit to wait. The retry time ends when the request's turn would have come. Only the limits
/// with a `queue` have verdicts, and no limit was charged.
fn turned_away(rule_charges: &RuleCharges<'_>, outlooks: &[Outlook]) -> Decision {
    let now = outlooks.iter().map(|outlook| outlook.now).max();
    let mut outlooks = outlooks.iter();
    let verdicts = rule_charges.iter().map(|rule_charge| {
        let is_looked_at = rule_charge.rule.queues();
        let Some(Outlook { verdict, now, .. }) = is_looked_at.then(|| outlooks.next()).flatten()
        else {
            return (None, 0);
        };
        let verdict = Verdict {
            allowed: false,
            retry_after: verdict.delay.max(verdict.retry_after),
            ..*verdict
        };
        (Some(verdict), *now)
    });
    uncharged(Via::Here, now.unwrap_or_default(), verdicts)
}

/// Makes a refusal without charges. `verdicts` contains the verdict of each limit, with the time of the verdict.
fn uncharged(
    via: Via,
    now: Micros,
    verdicts: impl Iterator<Item = (Option<Verdict>, Micros)>,
) -> Decision {
    let (here, hold) = (false, HoldId(0));
    let (verdicts, sources) = verdicts
        .map(|(verdict, at)| (verdict, Source { at, here, hold }))
        .unzip();
    Decision {
        outcome: Outcome::Refused,
        via,
        now,
        verdicts,
        sources,
        call: None,
    }
}
