//! Reports budgets that have reached a threshold of `notify`: once for each budget, threshold and period over all gateways.
//!
//! Units that running requests hold may be given back, so an event of such a budget waits until they are used.
//!
//! Each event has a task, so that a slow receiver delays no other receiver. A task first claims its event in Redis. While another gateway
//! has the claim, the task waits, and takes over if that gateway has not reported the event when the claim ends. So an event is lost only if
//! all gateways that have seen it end before it is reported.

mod signature;
mod webhook;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::{digest, rand};
use jiff::Timestamp;
use parking_lot::Mutex;
use tidegate_store::redis::{Claim, Claims};
use tidegate_store::{Charge, Store, StoreError};
use tidegate_telemetry::metrics::BudgetEventMetrics;
use tidegate_tower::{BudgetEvent, BudgetEvents, Dropped, Webhook};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep, timeout};

use webhook::Sender;

/// The most events of one receiver whose report has not ended.
const MAX_PENDING: usize = 10_000;
/// The most requests to one receiver at the same time.
const MAX_SENDING: usize = 16;
/// The time for which a claim is kept without a renewal. Longer than an attempt and the longest wait before the next attempt.
const LEASE: Duration = Duration::from_secs(20);
/// The time before the first look at a budget whose units are held. Each further look doubles the time.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// The longest time between two looks at such a budget.
const LONGEST_LOOK: Duration = Duration::from_secs(8);
/// The most looks at the same time, so that they take little of the store's time.
const MAX_LOOKING: usize = 4;
/// The time between two attempts while another gateway has the claim.
const POLL: Duration = Duration::from_secs(5);
/// The most attempts to record in Redis that an event was reported.
const MAX_RECORDS: u32 = 5;
/// The wait after a first failure. Each further failure doubles the wait.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait after a failure.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// The time from the event after which no further attempt is made.
const GIVE_UP: Duration = Duration::from_secs(15 * 60);
/// The time for which a stopping gateway waits for the reports of its last events.
const LAST_EVENTS: Duration = Duration::from_secs(2);

/// Counts events that found no place.
#[derive(Debug)]
struct Drops(BudgetEventMetrics);

impl Dropped for Drops {
    fn dropped(&self, limit: &str) {
        self.0.ended(limit, "dropped");
    }
}

/// Makes the queue of events.
pub(crate) fn queue(metrics: &BudgetEventMetrics) -> (BudgetEvents, mpsc::Receiver<BudgetEvent>) {
    BudgetEvents::new(Drops(metrics.clone()))
}

/// Reports the events of a gateway.
#[derive(Debug)]
pub(crate) struct Notifier {
    store: Store,
    /// `None` if budgets are in memory.
    claims: Option<Claims>,
    events: BudgetEvents,
    metrics: BudgetEventMetrics,
    looking: Semaphore,
    /// The receivers with events. `None` stands for the log.
    receivers: Mutex<HashMap<Option<Arc<Webhook>>, Arc<Receiver>>>,
}

/// A receiver of events, with its bounds.
#[derive(Debug)]
struct Receiver {
    sender: Option<Sender>,
    pending: Arc<Semaphore>,
    sending: Semaphore,
}

/// The reason why an attempt to report an event failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the event cannot be claimed: {0}")]
    Claim(#[from] StoreError),
    #[error("{0}")]
    Webhook(String),
}

/// The end of an attempt.
enum Attempt {
    /// The event was reported, by this gateway.
    Reported,
    /// The event was reported, by another gateway.
    Elsewhere,
    /// Another gateway has the claim.
    Claimed,
}

impl Notifier {
    /// Makes a notifier for the events of a gateway with this store.
    ///
    /// # Errors
    ///
    /// The system has no random numbers.
    pub(crate) fn new(
        store: &Store,
        events: BudgetEvents,
        metrics: BudgetEventMetrics,
    ) -> Result<Self, aws_lc_rs::error::Unspecified> {
        let mut bytes = [0; 16];
        rand::fill(&mut bytes)?;
        let claims = match store {
            Store::Memory(_) => None,
            Store::Redis(store) => {
                let (shards, key_prefix) = store.servers();
                Some(Claims::new(shards, key_prefix, &hexadecimal(&bytes)))
            }
        };
        Ok(Self {
            store: store.clone(),
            claims,
            events,
            metrics,
            looking: Semaphore::new(MAX_LOOKING),
            receivers: Mutex::default(),
        })
    }

    /// Reports events until the future is dropped.
    pub(crate) async fn keep(self: Arc<Self>, mut queue: mpsc::Receiver<BudgetEvent>) {
        while let Some(event) = queue.recv().await {
            let receiver = self.receiver(event.notify.webhook.as_ref());
            let Ok(permit) = receiver.pending.clone().try_acquire_owned() else {
                self.metrics.ended(event.limit.name(), "dropped");
                self.events.forget(&event);
                continue;
            };
            self.metrics.waiting.inc();
            let notifier = self.clone();
            tokio::spawn(async move {
                notifier.settle_and_report(&receiver, event).await;
                notifier.metrics.waiting.dec();
                drop(permit);
            });
        }
    }

    /// Waits until all events are reported, for two seconds at most.
    pub(crate) async fn finish(&self) {
        let ended = async {
            while self.metrics.waiting.get() > 0 {
                sleep(Duration::from_millis(10)).await;
            }
        };
        if timeout(LAST_EVENTS, ended).await.is_err() {
            tracing::warn!(
                events = self.metrics.waiting.get(),
                "events of budgets were not reported before the end"
            );
        }
    }

    fn receiver(&self, webhook: Option<&Arc<Webhook>>) -> Arc<Receiver> {
        let mut receivers = self.receivers.lock();
        // A receiver that no configuration and no event needs any more is dropped. The map and the receiver itself have one reference each.
        receivers.retain(|webhook, receiver| {
            Arc::strong_count(receiver) > 1
                || webhook.as_ref().is_none_or(|it| Arc::strong_count(it) > 2)
        });
        let new = || {
            Arc::new(Receiver {
                sender: webhook.map(|webhook| Sender::new(webhook.clone())),
                pending: Arc::new(Semaphore::new(MAX_PENDING)),
                sending: Semaphore::new(MAX_SENDING),
            })
        };
        receivers
            .entry(webhook.cloned())
            .or_insert_with(new)
            .clone()
    }

    /// Reports an event if the units are used, and not only held.
    async fn settle_and_report(&self, receiver: &Receiver, mut event: BudgetEvent) {
        if event.limit.reserves().is_some() {
            let Some(used) = self.settled(&event).await else {
                self.events.forget(&event);
                return;
            };
            event.used = used;
        }
        self.report(receiver, &event).await;
    }

    /// Waits until the budget has used the units of the event, and returns the used units. `None` if running requests gave too many of these
    /// units back.
    async fn settled(&self, event: &BudgetEvent) -> Option<u64> {
        let capacity = event.limit.quota().capacity();
        let charge = Charge {
            limit: &event.limit,
            key: event.key,
            cost: 1,
            origin: None,
        };
        let mut wait = FIRST_LOOK;
        while event.found.elapsed() < GIVE_UP {
            sleep(wait).await;
            wait = (wait * 2).min(LONGEST_LOOK);
            if let Ok(Some((remaining, held))) = self.left(&charge).await {
                let taken = capacity.saturating_sub(remaining);
                let used = taken.saturating_sub(held);
                if event.is_reached(used) {
                    return Some(used);
                }
                if !event.is_reached(taken) {
                    return None;
                }
            }
        }
        None
    }

    /// Returns the units of a budget that are left, and the most units that running requests held meanwhile.
    async fn left(&self, charge: &Charge<'_>) -> Result<Option<(u64, u64)>, StoreError> {
        let _place = self.looking.acquire().await;
        // A request may begin or end between the calls. Its held units must not count as used.
        let before = self.store.counts(charge).await?.held;
        let outlooks = self.store.peek(std::slice::from_ref(charge)).await?;
        let held = self.store.counts(charge).await?.held.max(before);
        Ok(outlooks.first().map(|it| (it.verdict.remaining, held)))
    }

    /// Reports an event. Tries again after failures, for a quarter of an hour.
    async fn report(&self, receiver: &Receiver, event: &BudgetEvent) {
        let (id, began) = (event_id(event), Instant::now());
        let mut wait = FIRST_WAIT;
        loop {
            let failure = match self.attempt(receiver, event, &id).await {
                Ok(Attempt::Reported) => {
                    self.metrics.ended(event.limit.name(), "reported");
                    return;
                }
                Ok(Attempt::Elsewhere) => return,
                Ok(Attempt::Claimed) => {
                    if began.elapsed() >= GIVE_UP {
                        self.events.forget(event);
                        return;
                    }
                    self.metrics.waiting.dec();
                    sleep(POLL).await;
                    self.metrics.waiting.inc();
                    continue;
                }
                Err(failure) => failure,
            };
            if began.elapsed() >= GIVE_UP {
                let limit = event.limit.name();
                tracing::error!(
                    limit,
                    client = event.client.as_ref().map(tracing::field::display),
                    at = event.at,
                    error = %failure,
                    "the event of a budget could not be reported; the next request of the budget causes it again"
                );
                self.metrics.ended(limit, "failed");
                self.events.forget(event);
                return;
            }
            sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    async fn attempt(
        &self,
        receiver: &Receiver,
        event: &BudgetEvent,
        id: &str,
    ) -> Result<Attempt, Failure> {
        // The place is taken first, so that the wait for a place does not use up the time of the claim.
        let _place = receiver.sending.acquire().await;
        let claims = self.claims.as_ref().filter(|_| !event.is_local());
        if let Some(claims) = claims {
            match claims.claim(id, LEASE).await? {
                Claim::Own => {}
                Claim::Other => return Ok(Attempt::Claimed),
                Claim::Reported => return Ok(Attempt::Elsewhere),
            }
        }
        if let Some(sender) = &receiver.sender {
            sender.send(id, event).await.map_err(Failure::Webhook)?;
        }
        log(event);
        if let Some(claims) = claims {
            record(claims, id, event).await;
        }
        Ok(Attempt::Reported)
    }
}

/// Records in Redis that an event was reported. Tries a few times, because another gateway would report the event again without the record.
async fn record(claims: &Claims, id: &str, event: &BudgetEvent) {
    for attempt in 1.. {
        match claims.reported(id, kept(event)).await {
            Ok(()) => return,
            Err(error) if attempt == MAX_RECORDS => {
                tracing::warn!(
                    %error,
                    limit = event.limit.name(),
                    "Redis has no record that the event of a budget was reported; another gateway may report it again"
                );
                return;
            }
            Err(_) => sleep(FIRST_WAIT).await,
        }
    }
}

/// Writes an event to the log.
fn log(event: &BudgetEvent) {
    tracing::info!(
        limit = event.limit.name(),
        client = event.client.as_ref().map(tracing::field::display),
        plan = event.plan.as_ref().map(tracing::field::display),
        at = event.at,
        used = event.used,
        capacity = event.limit.quota().capacity(),
        "a budget has reached a threshold"
    );
}

/// Returns the time for which the record of a reported event is kept: the rest of the period, and the time of a claim at least, so that
/// waiting gateways find the record.
fn kept(event: &BudgetEvent) -> Duration {
    let period = Duration::from_micros(event.until.saturating_sub(event.now));
    period.saturating_sub(event.found.elapsed()).max(LEASE)
}

/// Returns the ID of an event for its claim: the same on all gateways for a budget, a threshold and a window.
fn event_id(event: &BudgetEvent) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    let id = event.limit.id().as_bytes();
    context.update(&(id.len() as u64).to_be_bytes());
    context.update(id);
    context.update(&event.key.tag);
    context.update(&event.key.rest);
    context.update(&[event.at]);
    let window = event.has_windows.then_some(event.until);
    context.update(&window.unwrap_or(0).to_be_bytes());
    hexadecimal(&context.finish().as_ref()[..16])
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Formats a time in us since the epoch.
fn date(time: u64) -> String {
    let time = i64::try_from(time).map(Timestamp::from_microsecond);
    match time {
        Ok(Ok(time)) => format!("{:.0}", time),
        _ => String::new(),
    }
}
