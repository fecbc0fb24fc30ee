//! Reads the log once, and lets every configuration decide about each of its requests.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use tidegate_config::Plan;
use tidegate_core::Micros;
use tidegate_logs::{Entry, Reader, Stamp};

use crate::asked::Asked;
use crate::candidate::Candidate;
use crate::ladder::Ladder;
use crate::lane::{Lane, RetryModel};
use crate::request::Given;
use crate::router::Router;
use crate::stats::LaneStats;

const SECOND: Micros = 1_000_000;

/// Times of at most this resolution are taken as they are, in us.
const EXACT: Micros = 10_000;

/// How many requests there are between two looks at the clock.
const CHECK_EVERY: u64 = 1_024;

/// A configuration that is tried.
#[derive(Clone, Copy)]
pub struct Trial<'p> {
    /// What the report calls it: its file.
    pub name: &'p str,
    /// The configuration.
    pub plan: &'p Plan,
    /// How it finds routes.
    pub router: &'p dyn Router,
}

impl std::fmt::Debug for Trial<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trial")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Which other quotas are tried.
#[derive(Clone, Debug)]
pub(crate) enum Steps {
    /// Some around that of each limit.
    Around,
    /// These capacities, by configuration and limit.
    At(Vec<Vec<Vec<u64>>>),
}

/// How the log is replayed.
pub(crate) struct Replay<'p> {
    pub(crate) given: &'p Given,
    pub(crate) retries: RetryModel,
    pub(crate) steps: Steps,
    pub(crate) decisions: Option<PathBuf>,
}

impl Replay<'_> {
    /// The same once more, which writes nothing.
    pub(crate) fn again(&self) -> Self {
        Self {
            given: self.given,
            retries: self.retries,
            steps: Steps::Around,
            decisions: None,
        }
    }
}

/// What was found out.
pub(crate) struct Found<'p> {
    pub(crate) candidates: Vec<Tried<'p>>,
    pub(crate) times: Times,
    /// Whether it ended before the log did.
    pub(crate) stopped: bool,
}

/// A configuration with its runs.
pub(crate) struct Tried<'p> {
    pub(crate) trial: Trial<'p>,
    pub(crate) candidate: Candidate<'p>,
    /// One, or two if times are whole seconds: spread evenly, and all at once.
    pub(crate) lanes: Vec<Lane<'p>>,
    pending: Vec<(Asked<'p>, Micros, bool)>,
}

/// What the times of the log are worth.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    pub(crate) first: Option<Micros>,
    pub(crate) last: Micros,
    /// Requests of which only the second is known.
    pub(crate) coarse: u64,
    /// Requests of which only the end is known.
    pub(crate) ends: u64,
    pub(crate) requests: u64,
}

impl Times {
    fn note(&mut self, entry: &Entry<'_>) {
        let arrival = entry.arrival();
        self.first = Some(self.first.map_or(arrival, |first| first.min(arrival)));
        self.last = self.last.max(arrival);
        self.coarse += u64::from(entry.resolution() > EXACT);
        self.ends += u64::from(entry.stamp() == Stamp::End);
        self.requests += 1;
    }
}

/// Replays the log. `go_on` is asked from time to time, and may end it early.
pub(crate) fn replay<'p>(
    trials: &[Trial<'p>],
    reader: &mut Reader,
    replay: &Replay<'p>,
    go_on: &mut dyn FnMut(&Reader) -> bool,
) -> Result<Found<'p>, String> {
    let mut found = Found {
        candidates: Vec::new(),
        times: Times::default(),
        stopped: false,
    };
    let mut second = 0;
    loop {
        if found.times.requests.is_multiple_of(CHECK_EVERY) && !found.stopped && !go_on(reader) {
            found.stopped = true;
            reader.close();
        }
        let entry = match reader.next() {
            Ok(Some(entry)) => entry,
            Ok(None) => break,
            Err(error) => return Err(error.to_string()),
        };
        let is_coarse = entry.resolution() > EXACT;
        if found.candidates.is_empty() {
            // Of a log without whole seconds both runs would be the same.
            let runs = if is_coarse { 2 } else { 1 };
            for (index, trial) in trials.iter().enumerate() {
                found.candidates.push(tried(*trial, index, runs, replay)?);
            }
        }
        found.times.note(&entry);
        let (arrival, number) = (entry.arrival(), found.times.requests);
        for tried in &mut found.candidates {
            let two_runs = tried.lanes.len() > 1;
            if two_runs && arrival / SECOND != second {
                tried.flush();
            }
            let Some(asked) = tried.candidate.asked(&entry, number) else {
                continue;
            };
            if two_runs {
                tried.pending.push((asked, arrival, is_coarse));
            } else {
                tried.lanes[0].arrive(asked, arrival);
            }
        }
        second = arrival / SECOND;
    }
    // Standard input ends when it is to stop.
    found.stopped |= !go_on(reader);
    if found.candidates.is_empty() {
        for (index, trial) in trials.iter().enumerate() {
            found.candidates.push(tried(*trial, index, 1, replay)?);
        }
    }
    for tried in &mut found.candidates {
        tried.flush();
        for lane in &mut tried.lanes {
            lane.finish();
            lane.stats.finish();
        }
    }
    Ok(found)
}

fn tried<'p>(
    trial: Trial<'p>,
    index: usize,
    runs: usize,
    replay: &Replay<'p>,
) -> Result<Tried<'p>, String> {
    let limits = &trial.plan.limits;
    let names: Vec<Box<str>> = limits.iter().map(|limit| limit.name().into()).collect();
    let keeps_ids = replay.decisions.is_some();
    let mut lanes = Vec::new();
    for run in 0..runs {
        // Of several configurations the decisions of the first are written; of two runs, those of the even one.
        let file = replay.decisions.as_ref().filter(|_| index == 0 && run == 0);
        let decisions = file.map(|file| -> Result<Box<dyn Write>, String> {
            let open = File::create(file);
            let open = open.map_err(|error| format!("{}: {error}", file.display()))?;
            Ok(Box::new(BufWriter::new(open)))
        });
        let stats = LaneStats::new(names.clone(), decisions.transpose()?);
        let ladders = limits
            .iter()
            .enumerate()
            .map(|(number, limit)| match &replay.steps {
                Steps::Around => Ladder::new(limit),
                Steps::At(capacities) => {
                    let capacities = capacities.get(index).and_then(|of| of.get(number));
                    Ladder::at(limit, capacities.map_or(&[], Vec::as_slice))
                }
            });
        lanes.push(Lane::new(stats, ladders.collect(), replay.retries));
    }
    Ok(Tried {
        trial,
        candidate: Candidate::new(trial.plan, trial.router, replay.given, keeps_ids),
        lanes,
        pending: Vec::new(),
    })
}

impl<'p> Tried<'p> {
    /// Hands the requests of one second on: spread evenly in the first run, all at once in the second.
    fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let count = self.pending.iter().filter(|it| it.2).count() as u64;
        let [even, at_once] = &mut self.lanes[..] else {
            return;
        };
        // All are of one second. Those whose times are exact come between the others.
        let mut order: Vec<(Micros, usize)> = Vec::with_capacity(self.pending.len());
        let mut nth = 0;
        for (index, (_, at, is_coarse)) in self.pending.iter().enumerate() {
            let second = at - at % SECOND;
            let spread = match is_coarse {
                true => second + nth * SECOND / count,
                false => *at,
            };
            nth += u64::from(*is_coarse);
            order.push((spread, index));
        }
        order.sort_by_key(|(at, _)| *at);
        for (at, index) in &order {
            even.arrive(self.pending[*index].0.clone(), *at);
        }
        order.clear();
        for (index, (_, at, is_coarse)) in self.pending.iter().enumerate() {
            let second = at - at % SECOND;
            order.push((if *is_coarse { second } else { *at }, index));
        }
        order.sort_by_key(|(at, _)| *at);
        for (at, index) in &order {
            at_once.arrive(self.pending[*index].0.clone(), *at);
        }
        self.pending.clear();
    }
}
