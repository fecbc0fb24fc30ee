//! The scripts: which text a request's limits need, and what is passed to it.

use std::sync::{Arc, OnceLock};

use tidegate_core::{Block, CalendarWindow, MAX_EXACT, Micros, Quota};

use super::wire::script::{SCRIPTS, Script};
use crate::Charge;

/// The parts of `lua/`: each algorithm with the files that it needs, in the order of [`Quota::ALGORITHMS`], and blocks.
const PARTS: [&[&str]; 9] = [
    &[DEBT, include_str!("../../../../lua/token_bucket.lua")],
    &[DEBT, include_str!("../../../../lua/leaky_bucket.lua")],
    &[include_str!("../../../../lua/fixed_window.lua")],
    &[include_str!("../../../../lua/sliding_window_log.lua")],
    &[include_str!("../../../../lua/sliding_window_counter.lua")],
    &[include_str!("../../../../lua/calendar_window.lua")],
    &[PLACES, include_str!("../../../../lua/concurrency.lua")],
    &[include_str!("../../../../lua/block.lua")],
    &[include_str!("../../../../lua/reservations.lua")],
];
/// The parts for limits that block, and for those that reserve, whatever their algorithm.
const BLOCK: usize = Quota::ALGORITHMS.len();
const RESERVE: usize = BLOCK + 1;
const RECORD: &str = include_str!("../../../../lua/record.lua");
const PLACES: &str = include_str!("../../../../lua/places.lua");
const DEBT: &str = include_str!("../../../../lua/debt.lua");
const DECIDE: &str = include_str!("../../../../lua/decide.lua");
const DECIDE_ONE: &str = include_str!("../../../../lua/decide_one.lua");
const DECIDE_MANY: &str = include_str!("../../../../lua/decide_many.lua");
const EXCHANGE: &str = include_str!("../../../../lua/exchange.lua");
const GIVE_BACK: &str = include_str!("../../../../lua/give_back.lua");
const SETTLE: &str = include_str!("../../../../lua/settle.lua");
const EXTEND: &str = include_str!("../../../../lua/extend.lua");
const RENEW: &str = include_str!("../../../../lua/renew.lua");
const LEASE: &str = include_str!("../../../../lua/lease.lua");

const _: () = assert!(RESERVE == PARTS.len() - 1);

/// What a script is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Checks all, and charges all or none.
    Decide,
    /// The same for several requests, each on its own.
    DecideMany,
    /// Checks all, and charges none.
    Check,
    /// Takes back what was charged.
    GiveBack,
    /// Settles a reservation.
    Settle,
    /// Holds a reservation for longer.
    Extend,
    /// Renews places.
    Renew,
    /// Lends a slice of one limit's budget.
    Lease,
    /// Adds what a gateway has counted by itself.
    Exchange,
}

impl Task {
    const ALL: [Self; 9] = [
        Self::Decide,
        Self::DecideMany,
        Self::Check,
        Self::GiveBack,
        Self::Settle,
        Self::Extend,
        Self::Renew,
        Self::Lease,
        Self::Exchange,
    ];

    /// What stands behind the parts.
    const fn text(self) -> &'static [&'static str] {
        match self {
            Self::Decide => &["local charging = true\n", DECIDE, DECIDE_ONE],
            Self::DecideMany => &["local charging = true\n", DECIDE, DECIDE_MANY],
            Self::Check => &["local charging = false\n", DECIDE, DECIDE_ONE],
            Self::GiveBack => &[GIVE_BACK],
            Self::Settle => &[SETTLE],
            Self::Extend => &[EXTEND],
            Self::Renew => &[RENEW],
            Self::Lease => &[LEASE],
            Self::Exchange => &[EXCHANGE],
        }
    }
}

/// How many combinations of parts there are.
const COMBINATIONS: usize = 1 << PARTS.len();
const _: () = assert!(SCRIPTS == Task::ALL.len() * COMBINATIONS);

/// One script per task and combination of parts, joined when it is first needed.
#[derive(Debug)]
pub(super) struct Scripts(Box<[OnceLock<Script>]>);

impl Default for Scripts {
    fn default() -> Self {
        Self((0..SCRIPTS).map(|_| OnceLock::new()).collect())
    }
}

impl Scripts {
    /// The script that does this for these charges' algorithms.
    pub(super) fn of(&self, task: Task, charges: &[Charge<'_>]) -> &Script {
        let combination = charges.iter().fold(0, |set, charge| {
            let blocks = usize::from(charge.limit.block().is_some()) << BLOCK;
            let reserves = usize::from(charge.limit.reserves().is_some()) << RESERVE;
            set | 1 << charge.limit.quota().algorithm_index() | blocks | reserves
        });
        self.at(task as usize * COMBINATIONS + combination)
    }

    /// The script that does this for these algorithms, of limits that neither block nor reserve.
    pub(super) fn of_quotas<'a>(
        &self,
        task: Task,
        quotas: impl IntoIterator<Item = &'a Quota>,
    ) -> &Script {
        let add = |set, quota: &Quota| set | 1 << quota.algorithm_index();
        let combination = quotas.into_iter().fold(0, add);
        self.at(task as usize * COMBINATIONS + combination)
    }

    /// The script that decides several requests, of which the one with this index decides one.
    pub(super) fn many(&self, index: usize) -> &Script {
        self.at(Task::DecideMany as usize * COMBINATIONS + index % COMBINATIONS)
    }

    /// The script with this index.
    pub(super) fn at(&self, index: usize) -> &Script {
        let task = Task::ALL[index / COMBINATIONS];
        self.0[index].get_or_init(|| Script::new(index, joined(task, index % COMBINATIONS)))
    }
}

/// The text of a script: the parts that it needs, then what it is for.
fn joined(task: Task, combination: usize) -> String {
    // With this first line Redis refuses up front what it could not finish: when it is out of memory, a replica,
    // or asked for keys of several slots.
    let mut text = format!("#!lua\nlocal algorithms = {{}}\n{RECORD}");
    let mut joined: Vec<&str> = Vec::new();
    for (index, parts) in PARTS.iter().enumerate() {
        if combination & 1 << index == 0 {
            continue;
        }
        for part in *parts {
            if !joined.contains(part) {
                joined.push(part);
            }
        }
    }
    joined.extend(task.text());
    text.extend(joined);
    text
}

/// What is passed to a script: per charge the algorithm, the cost, the limit's ways, and the quota's numbers
/// (lua/README.md).
#[derive(Debug)]
pub(super) struct Arguments {
    words: Arc<[String]>,
    // Those of a calendar are known when the time of the call is; each with its place among the words.
    calendars: Vec<(usize, CalendarWindow)>,
}

impl Arguments {
    /// What is needed to decide.
    pub(super) fn of(charges: &[Charge<'_>]) -> Self {
        let mut words = Vec::with_capacity(charges.len() * 9);
        let mut calendars = Vec::new();
        for charge in charges {
            add(&mut words, &mut calendars, charge);
        }
        Self {
            words: words.into(),
            calendars,
        }
    }

    /// The words at `now` on Redis's clock of a call about one charge that has been decided, and these behind them.
    pub(super) fn followed_by(&self, words: &[String], now: Micros) -> Vec<String> {
        let own = self.at(now);
        let mut all = Vec::with_capacity(own.len() + words.len());
        all.extend_from_slice(&own);
        all.extend_from_slice(words);
        all
    }

    /// The words of a decision at `now` on Redis's clock.
    pub(super) fn at(&self, now: Micros) -> Arc<[String]> {
        if self.calendars.is_empty() {
            return self.words.clone();
        }
        let mut words = self.words.to_vec();
        fill_in(&mut words, &self.calendars, now);
        words.into()
    }
}

fn fill_in(words: &mut [String], calendars: &[(usize, CalendarWindow)], now: Micros) {
    for (place, quota) in calendars {
        for (word, number) in words[*place..].iter_mut().zip(quota.numbers(now)) {
            *word = number.to_string();
        }
    }
}

fn add(words: &mut Vec<String>, calendars: &mut Vec<(usize, CalendarWindow)>, charge: &Charge<'_>) {
    let (limit, quota) = (charge.limit, charge.limit.quota());
    words.push(quota.algorithm().to_owned());
    words.push(charge.cost.to_string());
    words.push(u8::from(limit.is_observed()).to_string());
    // Below 0 if refused requests prolong it.
    words.push(match limit.block() {
        None => "0".to_owned(),
        Some(Block {
            span,
            extend: false,
        }) => span.to_string(),
        Some(Block { span, extend: true }) => format!("-{span}"),
    });
    words.push(limit.reserves().unwrap_or(0).to_string());
    if let Quota::CalendarWindow(quota) = quota {
        calendars.push((words.len(), *quota));
    }
    add_numbers(words, quota);
}

/// What a script is told that decides, and may not after the deadline. What it reserves has this ID, if it does.
pub(super) fn with_deadline(until: Option<Micros>, hold: u64, words: &[String]) -> Vec<String> {
    let mut all = Vec::with_capacity(1 + words.len());
    all.push(deadline_of(until, hold));
    all.extend_from_slice(words);
    all
}

/// A deadline, and the ID of what a decision reserves, if it does.
pub(super) fn deadline_of(until: Option<Micros>, hold: u64) -> String {
    match hold {
        0 => deadline(until),
        id => format!("{} {id:x}", until.unwrap_or(MAX_EXACT)),
    }
}

/// A deadline on Redis's clock, if that is known.
pub(super) fn deadline(deadline: Option<Micros>) -> String {
    deadline.unwrap_or(MAX_EXACT).to_string()
}

/// A quota's numbers; those of a calendar are only places for them.
pub(super) fn add_numbers(words: &mut Vec<String>, quota: &Quota) {
    let text = |number: u64| number.to_string();
    match quota {
        Quota::TokenBucket(quota) => words.extend(quota.meter().numbers().map(text)),
        Quota::LeakyBucket(quota) => words.extend(quota.meter().numbers().map(text)),
        Quota::FixedWindow(quota) => words.extend(quota.numbers().map(text)),
        Quota::SlidingWindowLog(quota) => words.extend(quota.numbers().map(text)),
        Quota::SlidingWindowCounter(quota) => words.extend(quota.numbers().map(text)),
        Quota::CalendarWindow(quota) => words.extend(quota.numbers(0).map(text)),
        Quota::Concurrency(quota) => words.extend(quota.numbers().map(text)),
    }
}
