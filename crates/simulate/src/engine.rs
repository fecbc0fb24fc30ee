//! Reads the log once, and lets every configuration decide each request of the log.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tidegate_config::Settings;
use tidegate_core::Micros;
use tidegate_logs::{Entry, Reader, Stamp};
use tidegate_store::Limit;
use tidegate_tower::Action;

use crate::arrivals::{Arrivals, EXACT};
use crate::candidate::Candidate;
use crate::lacks::rules;
use crate::ladder::Ladder;
use crate::lane::{Lane, RetryModel, UsedKeys};
use crate::request::Given;
use crate::router::Router;
use crate::stats::LaneStats;

/// Number of requests between two calls of `go_on`, which shows the progress and can stop the replay.
const CHECK_EVERY: u64 = 1_024;

/// A configuration to replay.
#[derive(Clone, Copy)]
pub struct Trial<'p> {
    /// The file name of the configuration, for the report.
    pub name: &'p str,
    /// The configuration.
    pub settings: &'p Settings,
    /// Finds the routes of the configuration.
    pub router: &'p dyn Router,
}

impl std::fmt::Debug for Trial<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trial")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The settings of a replay.
pub(crate) struct Replay<'p> {
    pub(crate) given: &'p Given,
    pub(crate) retries: RetryModel,
    /// The capacities of other quotas to try, by configuration and limit. `None` tries capacities around the configured capacity of each
    /// limit.
    pub(crate) capacities: Option<Vec<Vec<Vec<u64>>>>,
    pub(crate) decisions: Option<PathBuf>,
}

impl Replay<'_> {
    /// Returns the error message for a file of decisions that cannot be written.
    fn failed(&self, error: &io::Error) -> String {
        let file = self.decisions.as_deref().unwrap_or(Path::new("-"));
        format!("{}: {error}", file.display())
    }
}

/// The results of a replay.
pub(crate) struct Found<'p> {
    pub(crate) candidates: Vec<Tried<'p>>,
    pub(crate) times: Times,
    /// Whether the replay ended before the log did.
    pub(crate) stopped: bool,
}

/// A configuration with its runs.
pub(crate) struct Tried<'p> {
    pub(crate) trial: Trial<'p>,
    pub(crate) candidate: Candidate<'p>,
    /// One run, or two runs if the times of a log are whole seconds. The first run spreads requests evenly over each second. The other run
    /// places all requests of a second at the start of that second.
    pub(crate) lanes: Vec<Lane<'p>>,
    pub(crate) arrivals: Arrivals<'p>,
}

/// The first and the last time in the log, and counts of its requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    pub(crate) first: Option<Micros>,
    pub(crate) last: Micros,
    /// Requests whose times are coarser than `EXACT`.
    pub(crate) coarse: u64,
    /// Requests without a path.
    pub(crate) without_path: u64,
    /// Requests whose lines have the time of the end and no duration, so that their arrival is unknown.
    pub(crate) ends: u64,
    pub(crate) requests: u64,
}

impl Times {
    fn note(&mut self, entry: &Entry<'_>) {
        let arrival = entry.arrival();
        self.first = Some(self.first.map_or(arrival, |first| first.min(arrival)));
        self.last = self.last.max(arrival);
        self.coarse += u64::from(entry.resolution() > EXACT);
        self.without_path += u64::from(entry.path().is_none());
        self.ends += u64::from(entry.stamp() == Stamp::End);
        self.requests += 1;
    }
}

/// Replays the log. Calls `go_on` every `CHECK_EVERY` requests, and ends early if `go_on` returns false.
pub(crate) fn replay<'p>(
    trials: &[Trial<'p>],
    reader: &mut Reader,
    replay: &Replay<'p>,
    go_on: &mut dyn FnMut(&Reader) -> bool,
) -> Result<Found<'p>, String> {
    let mut results = Found {
        candidates: Vec::new(),
        times: Times::default(),
        stopped: false,
    };
    // A second run differs from the first only if some times are whole seconds.
    let mut sources = reader.sources().iter();
    let runs = match sources.any(|source| source.resolution() > EXACT) {
        true => 2,
        false => 1,
    };
    for (index, trial) in trials.iter().enumerate() {
        results.candidates.push(tried(*trial, index, runs, replay)?);
    }
    loop {
        if results.times.requests.is_multiple_of(CHECK_EVERY) {
            if !results.stopped && !go_on(reader) {
                results.stopped = true;
                reader.close();
            }
            let mut lanes = results.candidates.iter().flat_map(|tried| &tried.lanes);
            if lanes.any(|lane| lane.stats.has_failed()) {
                break;
            }
        }
        let entry = match reader.next() {
            Ok(Some(entry)) => entry,
            Ok(None) => break,
            Err(error) => return Err(error.to_string()),
        };
        results.times.note(&entry);
        let (arrival, number) = (entry.arrival(), results.times.requests);
        for tried in &mut results.candidates {
            tried.arrivals.turn(arrival, &mut tried.lanes);
            let request = match tried.candidate.request(&entry, number) {
                Ok(request) => request,
                Err(why) => {
                    if tried.lanes.len() == 1 {
                        // Decisions are written in the order of the log, so the run decides all earlier requests first.
                        tried.arrivals.flush(arrival, &mut tried.lanes);
                    }
                    tried.lanes[0].stats.unasked(&entry, number, why);
                    continue;
                }
            };
            tried.arrivals.push(request, &entry);
        }
    }
    // A stop also ends standard input. So the loop may have ended by a stop, not by the end of the log.
    results.stopped |= !go_on(reader);
    for tried in &mut results.candidates {
        tried.arrivals.flush(Micros::MAX, &mut tried.lanes);
        for lane in &mut tried.lanes {
            results.stopped |= !lane.finish(&mut || go_on(reader));
            let written = lane.stats.finish();
            written.map_err(|error| replay.failed(&error))?;
        }
    }
    Ok(results)
}

/// Whether `action: delay` lets requests wait for this limit on at least one route.
pub(crate) fn delays(settings: &Settings, limit: &Limit) -> bool {
    rules(settings).any(|rule| {
        rule.limit.name() == limit.name() && matches!(rule.action, Action::Delay { .. })
    })
}

/// Whether no limit holds units while a request runs. If so, the state of a key has no holds, and `UsedKeys` can decide the requests.
fn is_used_alone(settings: &Settings) -> bool {
    rules(settings).all(|rule| rule.limit.lease().is_none())
}

fn tried<'p>(
    trial: Trial<'p>,
    index: usize,
    runs: usize,
    replay: &Replay<'p>,
) -> Result<Tried<'p>, String> {
    let limits = &trial.settings.limits;
    let names: Vec<Box<str>> = limits.iter().map(|limit| limit.name().into()).collect();
    let keeps_ids = replay.decisions.is_some();
    let mut lanes = Vec::new();
    for run in 0..runs {
        // Writes only the decisions of the first configuration, from the run that spreads requests evenly.
        let file = replay.decisions.as_ref().filter(|_| index == 0 && run == 0);
        let decisions = file.map(|file| -> Result<Box<dyn Write>, String> {
            let open = File::create(file).map_err(|error| replay.failed(&error))?;
            Ok(Box::new(BufWriter::new(open)))
        });
        let stats = LaneStats::new(names.clone(), decisions.transpose()?);
        let numbered = limits.iter().enumerate();
        let ladders = numbered.map(|(number, limit)| match &replay.capacities {
            // A limit with `action: delay` lets requests wait instead of refusing them, so a count of refusals at other quotas has no
            // meaning. A share has no quota of its own.
            _ if delays(trial.settings, limit) || limit.quota().is_share() => {
                Ladder::at(limit, &[])
            }
            None => Ladder::new(limit),
            Some(capacities) => Ladder::at(limit, &capacities[index][number]),
        });
        let quotas = limits.iter().map(|limit| *limit.quota());
        let used = is_used_alone(trial.settings).then(|| UsedKeys::new(quotas));
        lanes.push(Lane::new(stats, ladders.collect(), replay.retries, used));
    }
    Ok(Tried {
        trial,
        candidate: Candidate::new(trial.settings, trial.router, replay.given, keeps_ids),
        lanes,
        arrivals: Arrivals::default(),
    })
}
