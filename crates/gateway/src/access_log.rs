//! One structured line per request, written by a thread of its own.
//!
//! A request only hands its record over. When the thread cannot keep up, records are dropped and counted, and requests
//! go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use http::{Method, Request, StatusCode};
use tidegate_store::Via;
use tidegate_tower::{Client, ClientPlan, Decided};

use crate::outcome::RequestOutcome;
use crate::proxy::Forwarded;
use crate::request_id::RequestId;

/// How many records may wait for the thread.
const WAITING: usize = 8_192;

/// What the thread is handed: a record, or the end.
type Message = Option<Box<Record>>;

/// Where records go; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct AccessLog {
    records: Option<SyncSender<Message>>,
    dropped: Arc<AtomicU64>,
}

/// The thread that writes.
#[derive(Debug)]
pub(crate) struct Writer {
    messages: SyncSender<Message>,
    thread: JoinHandle<()>,
}

impl Writer {
    /// Waits until all that was handed over before is written, whoever still holds a clone of the log.
    pub(crate) fn finish(self) {
        // An error means that the thread is gone, which is what is wanted.
        let _ = self.messages.send(None);
        let _ = self.thread.join();
    }
}

impl AccessLog {
    /// Starts the thread that writes; it ends when it is finished, or when the last clone is gone.
    pub(crate) fn start() -> std::io::Result<(Self, Writer)> {
        let (messages, receiver) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("access-log".into());
        let thread = thread.spawn(move || write_all(&receiver))?;
        let log = Self {
            records: Some(messages.clone()),
            dropped: Arc::default(),
        };
        Ok((log, Writer { messages, thread }))
    }

    /// A log that nobody wants to read.
    pub(crate) fn off() -> Self {
        Self {
            records: None,
            dropped: Arc::default(),
        }
    }

    /// Whether anybody wants to read it.
    pub(crate) const fn is_on(&self) -> bool {
        self.records.is_some()
    }

    pub(crate) fn write(&self, record: Box<Record>) {
        if let Some(records) = &self.records
            && records.try_send(Some(record)).is_err()
        {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records that were dropped since start.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// What a line says.
#[derive(Debug)]
pub(crate) struct Record {
    started: Instant,
    id: RequestId,
    method: Method,
    path: Box<str>,
    route: Option<Arc<str>>,
    decided: Option<Decided>,
    forwarded: Option<Forwarded>,
    status: Option<StatusCode>,
    outcome: RequestOutcome,
    took: Duration,
}

impl Record {
    /// A request that has just begun. Its query is left out: it may hold secrets.
    pub(crate) fn new<B>(request: &Request<B>, id: RequestId, route: Option<Arc<str>>) -> Self {
        Self {
            started: Instant::now(),
            id,
            method: request.method().clone(),
            path: request.uri().path().into(),
            route,
            decided: None,
            forwarded: None,
            status: None,
            outcome: RequestOutcome::Abandoned,
            took: Duration::ZERO,
        }
    }

    /// The same of a request whose head could not be read.
    pub(crate) fn unparsed(mut self) -> Self {
        self.path = "-".into();
        self
    }

    pub(crate) fn answered(
        &mut self,
        status: Option<StatusCode>,
        decided: Option<Decided>,
        forwarded: Option<Forwarded>,
    ) {
        self.status = status;
        self.decided = decided;
        self.forwarded = forwarded;
    }

    pub(crate) fn ended(&mut self, outcome: RequestOutcome) {
        self.outcome = outcome;
        self.took = self.started.elapsed();
    }
}

fn write_all(messages: &Receiver<Message>) {
    while let Ok(Some(record)) = messages.recv() {
        write(&record);
    }
}

fn write(record: &Record) {
    let decided = record.decided.as_ref();
    let decision = decided.and_then(|decided| decided.decision.as_ref());
    let limit = decided.and_then(|decided| decided.rules.get(decided.tightest?));
    let call = decision.and_then(|decision| decision.call.as_ref());
    let microseconds = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    tracing::info!(
        target: "access",
        id = record.id.0.to_str().unwrap_or("-"),
        method = record.method.as_str(),
        path = &*record.path,
        status = record.status.map_or(unanswered(record.outcome), |status| status.as_u16()),
        outcome = record.outcome.label(),
        route = record.route.as_deref(),
        // As text, which is quoted: users may be called anything.
        client = decided.map(|decided: &Decided| shown(&decided.client)),
        plan = decided.and_then(|decided| decided.plan.as_ref()).map(ClientPlan::name),
        limit = limit.map(|rule| rule.limit.name()),
        decided_by = decision.map(|decision| match decision.via {
            Via::Store => "store",
            Via::Remembered => "memory",
            Via::Here => "gateway",
            Via::Fallback => "on_failure",
        }),
        would_refuse = decided.and_then(would_refuse),
        waited_us = decided.map(|decided| decided.waited).filter(|waited| !waited.is_zero()).map(microseconds),
        store_us = call.map(|call| microseconds(call.took)),
        upstream_us = record.forwarded.map(|forwarded| microseconds(forwarded.took)),
        total_us = microseconds(record.took),
    );
}

/// The limits that only observe, and would have refused a request that went on.
fn would_refuse(decided: &Decided) -> Option<String> {
    let names: Vec<&str> = decided.would_refuse().map(|limit| limit.name()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// What stands for the status of a request that was not answered, as the field writes it: 444 where we did not want to,
/// 499 where its client left before.
const fn unanswered(outcome: RequestOutcome) -> u16 {
    match outcome {
        RequestOutcome::Dropped => 444,
        _ => 499,
    }
}

/// The client as text, cut where a name is too long for a log.
fn shown(client: &Client) -> String {
    const LONGEST: usize = 128;
    let mut text = client.to_string();
    if let Some((end, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(end);
        text.push('…');
    }
    text
}
