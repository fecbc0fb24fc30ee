//! The results of the requests of one run.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use foldhash::fast::RandomState;
use tidegate_core::{Micros, Verdict};
use tidegate_identity::Client;
use tidegate_logs::{Entry, Field};
use tidegate_tower::Action;

use crate::asked::Asked;
use crate::caller::shown;
use crate::charged::Unasked;
use crate::series::{Series, Span};

const MINUTE: Micros = 60_000_000;

/// The result of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Admitted,
    Refused,
    /// The request is refused, and its client retries.
    Later,
}

/// The results of the requests of one run.
pub(crate) struct LaneStats {
    pub(crate) limits: Vec<LimitStats>,
    /// The names of the limits.
    names: Vec<Box<str>>,
    pub(crate) requests: Requests,
    /// Output for the decisions, as JSON lines.
    decisions: Option<Box<dyn Write>>,
    /// The error that ended the writing of decisions.
    failed: Option<io::Error>,
}

/// Counts of requests, by their results.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Requests {
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
    /// Admitted requests that waited.
    pub(crate) delayed: u64,
    /// The longest wait of an admitted request, in us.
    pub(crate) longest: Micros,
    /// Admitted requests that were refused before and came again.
    pub(crate) after_retry: u64,
    /// Number of retries of refused requests.
    pub(crate) retries: u64,
    /// Admitted requests that an observed limit would have refused.
    pub(crate) would_refuse: u64,
}

/// The results of one limit.
#[derive(Debug, Default)]
pub(crate) struct LimitStats {
    pub(crate) requests: u64,
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
    pub(crate) delayed: u64,
    pub(crate) longest: Micros,
    /// The start of the minute in which the limit first refused a request, in us since the epoch.
    pub(crate) first: Option<Micros>,
    /// The start of the minute with the most refusals, in us since the epoch, and the number of these refusals.
    pub(crate) worst: Option<(Micros, u64)>,
    minute: (Micros, u64),
    /// Hashes of the charged keys.
    pub(crate) keys: HashSet<u64, RandomState>,
    /// The refused clients, with their numbers of refusals.
    pub(crate) clients: HashMap<Client, u64, RandomState>,
    pub(crate) series: Series,
}

impl LaneStats {
    pub(crate) fn new(names: Vec<Box<str>>, decisions: Option<Box<dyn Write>>) -> Self {
        Self {
            limits: names.iter().map(|_| LimitStats::default()).collect(),
            names,
            requests: Requests::default(),
            decisions,
            failed: None,
        }
    }

    /// Writes a line to the decisions for a request that no limit decides. Its `decision` is the reason.
    pub(crate) fn unasked(&mut self, entry: &Entry<'_>, number: u64, why: Unasked) {
        if self.decisions.is_none() {
            return;
        }
        let id = entry.text(Field::Id).map(|id| id.bytes());
        let decision = match why {
            Unasked::Denied => "denied",
            Unasked::Oversized => "too costly",
            Unasked::Shed => "shed",
        };
        self.write(&serde_json::json!({
            "request": number,
            "id": id.as_deref().map(String::from_utf8_lossy),
            "at_us": entry.arrival(),
            "decision": decision,
            "refused_by": [],
            "would_refuse": [],
            "delayed_us": 0,
        }));
    }

    /// Counts the keys of a new request, or the retry of a refused request.
    pub(crate) fn came(&mut self, request: &Asked<'_>) {
        self.requests.retries += u64::from(request.attempt > 0);
        if request.attempt > 0 || request.is_known {
            return;
        }
        for (charge, limit) in request.charged.charges.iter().zip(&request.charged.limits) {
            let stats = &mut self.limits[usize::from(*limit)];
            let [tag, rest] = [charge.key.tag, charge.key.rest].map(u128::from_ne_bytes);
            let hash = tag ^ rest.rotate_left(1);
            stats.keys.insert((hash >> 64) as u64 ^ hash as u64);
        }
    }

    /// Counts the result of a request, with the verdicts of its limits and its wait in us.
    pub(crate) fn ended(
        &mut self,
        request: &Asked<'_>,
        now: Micros,
        ending: Ending,
        (verdicts, delayed): (&[Option<Verdict>], Micros),
    ) {
        let admitted = ending == Ending::Admitted;
        let requests = &mut self.requests;
        match ending {
            Ending::Admitted => {
                requests.admitted += 1;
                requests.delayed += u64::from(delayed > 0);
                requests.longest = requests.longest.max(delayed);
                requests.after_retry += u64::from(request.attempt > 0);
            }
            Ending::Refused => requests.refused += 1,
            Ending::Later => {}
        }
        let mut refusing: Vec<u16> = Vec::new();
        let verdicts = request.charged.charges.iter().zip(verdicts);
        for ((charge, verdict), limit) in verdicts.zip(&request.charged.limits) {
            let stats = &mut self.limits[usize::from(*limit)];
            stats.requests += 1;
            let Some(verdict) = verdict else {
                continue;
            };
            // Refusals of observed limits count if the request is admitted. Refusals of the other limits count if it is refused.
            let refuses = !verdict.allowed && charge.limit.is_observed() == admitted;
            if refuses {
                stats.refuse(&request.charged.client, now);
                refusing.push(*limit);
            }
            let is_admitted = admitted && verdict.allowed;
            stats.admitted += u64::from(is_admitted);
            let waits = matches!(charge.rule.action, Action::Delay { .. })
                || charge.rule.queues() && verdict.delay > 0;
            if is_admitted && waits && delayed > 0 {
                stats.delayed += 1;
                stats.longest = stats.longest.max(delayed);
            }
            let capacity = charge.limit.quota().capacity().max(1);
            let left = verdict.remaining.min(capacity);
            let span = Span {
                admitted: u64::from(is_admitted),
                refused: u64::from(refuses),
                used: ((capacity - left) as u128 * 1000 / u128::from(capacity)) as u16,
            };
            stats.series.add(now, span);
        }
        self.requests.would_refuse += u64::from(admitted && !refusing.is_empty());
        if self.decisions.is_none() {
            return;
        }
        let name = |limit: &u16| &*self.names[usize::from(*limit)];
        let refusing: Vec<&str> = refusing.iter().map(name).collect();
        let (refused_by, would_refuse) = match admitted {
            true => (Vec::new(), refusing),
            false => (refusing, Vec::new()),
        };
        let decision = match ending {
            Ending::Admitted => "admitted",
            Ending::Refused => "refused",
            Ending::Later => "refused, comes again",
        };
        self.write(&serde_json::json!({
            "request": request.number,
            "id": request.id,
            "at_us": now,
            "client": shown(&request.charged.client),
            "decision": decision,
            "refused_by": refused_by,
            "would_refuse": would_refuse,
            "delayed_us": delayed,
        }));
    }

    /// Writes a line of JSON.
    fn write(&mut self, line: &serde_json::Value) {
        if let Some(out) = &mut self.decisions
            && let Err(error) = writeln!(out, "{line}")
        {
            (self.decisions, self.failed) = (None, Some(error));
        }
    }

    /// Whether decisions could not be written.
    pub(crate) const fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Completes the count of each limit's last minute, and flushes the decisions.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        for limit in &mut self.limits {
            limit.turn(Micros::MAX);
        }
        if let Some(out) = &mut self.decisions {
            out.flush()?;
        }
        self.failed.take().map_or(Ok(()), Err)
    }
}

impl LimitStats {
    fn refuse(&mut self, client: &Client, now: Micros) {
        self.refused += 1;
        self.turn(now);
        self.first = self.first.or(Some(now - now % MINUTE));
        self.minute.1 += 1;
        match self.clients.get_mut(client) {
            Some(count) => *count += 1,
            None => _ = self.clients.insert(client.clone(), 1),
        }
    }

    /// Completes the count of the current minute, if `now` is in another minute.
    fn turn(&mut self, now: Micros) {
        let minute = now - now % MINUTE;
        if self.minute.0 == minute {
            return;
        }
        let (at, count) = self.minute;
        if count > self.worst.map_or(0, |worst| worst.1) {
            self.worst = Some((at, count));
        }
        self.minute = (minute, 0);
    }
}
