//! One trial: its limits, its work and its faults. All of it follows from a seed, and parts of it can be left out.

mod mishap;

use tidegate_core::{Block, Micros};
use tidegate_store::{Mode, OnFailure};
use tidegate_testkit::trials::Name;

use crate::law::{Kind, Numbers};
pub(crate) use mishap::Mishap;

/// The first number of faults that belong to an extra.
const FIRST_MORE: usize = 100;

/// A trial.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: Name,
    /// Whether the memory store is used, without Redis.
    pub(crate) in_memory: bool,
    pub(crate) gateways: usize,
    /// The time between two heartbeats of a gateway, in ms. `None`: gateways do not count each other, and the configuration has their
    /// number.
    pub(crate) heartbeat: Option<u64>,
    pub(crate) remembers: bool,
    pub(crate) limits: Vec<LimitCase>,
    pub(crate) work: Vec<Work>,
    pub(crate) faults: Vec<Fault>,
    /// Whether it runs on a Redis Cluster.
    pub(crate) in_cluster: bool,
    /// Whether it runs on a primary with replicas that Redis Sentinels watch.
    pub(crate) has_sentinels: bool,
    /// The time for which Redis is away at the start of the gateways, in ms.
    pub(crate) away: Option<u64>,
    /// Its extras, by their numbers.
    pub(crate) extras: Vec<(usize, Extra)>,
    /// The name of its theme in figures. Empty without a theme of `generate/themes` or `generate/waits`.
    pub(crate) theme: &'static str,
}

/// A limit.
#[derive(Clone, Debug)]
pub(crate) struct LimitCase {
    pub(crate) kind: Kind,
    /// The window, or the lease of `concurrency`.
    pub(crate) window: Micros,
    pub(crate) plans: Vec<Numbers>,
    pub(crate) mode: Mode,
    pub(crate) on_failure: OnFailure,
    pub(crate) reserves: Option<Micros>,
    pub(crate) block: Option<Block>,
    pub(crate) is_observed: bool,
}

/// An addition to the limits, work and faults of some trials. Each extra can be left out alone.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extra {
    /// A limit blocks its keys.
    Blocks(usize, Block),
    /// A limit only counts.
    Observed(usize),
    /// A limit uses the windows of a calendar.
    ByCalendar(usize),
    /// The gateways start while Redis is away. It comes back after this number of ms.
    Away(u64),
    /// It runs on a Redis Cluster.
    Cluster,
    /// It runs on a primary with replicas that Redis Sentinels watch.
    Sentinels,
    /// Limits with `mode: leased` or `mode: synced` become `exact`.
    Exact,
    /// One more fault, at this time in ms.
    Also(Mishap, u64),
}

/// A piece of work, which runs in a task of its own.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) nth: usize,
    pub(crate) gateway: usize,
    /// When it begins, in ms.
    pub(crate) at: u64,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    /// A number of requests, one after the other, with a pause in us between two.
    Ask {
        times: u64,
        pause: u64,
        charges: Vec<Ask>,
        then: Then,
        /// The longest wait of a decision in ms, if it is shorter than the timeout.
        within: Option<u64>,
    },
    /// The budgets of a key are reset, under all plans.
    Reset { limit: usize, key: u64 },
    /// A plan has other numbers from now on, in all gateways.
    Reload {
        limit: usize,
        plan: usize,
        numbers: Numbers,
    },
    /// One gateway reads a configuration with this change.
    Change { limit: usize, change: Change },
}

/// A change of a limit in one gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Other numbers for a plan.
    Numbers(usize, Numbers),
    /// Another mode.
    Mode(Mode),
    /// Another lease of holds, in us.
    Lease(Micros),
}

/// A charge, under a plan of its limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) limit: usize,
    pub(crate) key: u64,
    pub(crate) plan: usize,
    pub(crate) cost: u64,
    /// The member whose share of the limit is charged too.
    pub(crate) member: Option<Member>,
}

/// A member of a shared limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) name: u64,
    pub(crate) weight: u64,
}

/// The course of an admitted request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Then {
    /// It runs for a number of ms. Its real cost is the second number, if the limit learns the cost afterwards.
    Run(u64, u64),
    /// Its client leaves after this number of us, and may not wait for the decision.
    Leave(u64),
    /// It waits for its turn in a queue. Its client leaves after this number of us.
    Wait(u64),
    /// If it is refused for at most this number of us, it asks again after that time, as with `action: delay`.
    Retry(u64),
}

/// A fault.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) nth: usize,
    /// When, in ms.
    pub(crate) at: u64,
    /// The affected gateway, if the fault affects only one.
    pub(crate) gateway: usize,
    pub(crate) what: Mishap,
}

/// The distance between two plans in the keys of a history. Every plan has a budget of its own for each key of a client.
pub(crate) const PLAN: u64 = 10;

/// The key of a history for the budget that a client's key has under a plan.
pub(crate) const fn budget_key(key: u64, plan: usize) -> u64 {
    key + PLAN * plan as u64
}

impl Ask {
    /// The key of its budget in a history.
    pub(crate) const fn budget(&self) -> u64 {
        budget_key(self.key, self.plan)
    }
}

impl Extra {
    /// Its name in figures.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Blocks(_, block) if block.extend => "block, extend",
            Self::Blocks(..) => "block",
            Self::Observed(_) => "observe",
            Self::ByCalendar(_) => "calendar",
            Self::Away(_) => "gateways that start without Redis",
            Self::Cluster => "Redis Cluster",
            Self::Sentinels => "Redis Sentinel",
            Self::Exact => "no limit leased or synced",
            Self::Also(..) => "a fault more",
        }
    }
}

impl Case {
    /// A case of this seed and theme, without limits, work and faults.
    pub(crate) fn new(seed: u64, theme: &'static str) -> Self {
        Self {
            name: Name::of(seed),
            in_memory: false,
            gateways: 1,
            heartbeat: None,
            remembers: true,
            limits: Vec::new(),
            work: Vec::new(),
            faults: Vec::new(),
            in_cluster: false,
            has_sentinels: false,
            away: None,
            extras: Vec::new(),
            theme,
        }
    }

    /// The case of a seed, without the parts that are left out.
    pub(crate) fn of(name: &Name) -> Self {
        let mut case = crate::generate::case(name.seed);
        case.name = name.clone();
        let extras = crate::generate::extras(&case).into_iter().enumerate();
        let extras = extras.filter(|(nth, _)| !name.extras.contains(nth));
        case.extras = extras.collect();
        for (_, extra) in case.extras.clone() {
            case.add(extra);
        }
        case.faults
            .retain(|fault| !name.faults.contains(&fault.nth));
        case.work.retain_mut(|work| {
            if name.work.contains(&work.nth) {
                return false;
            }
            match &mut work.what {
                What::Ask { charges, .. } => {
                    charges.retain(|charge| !name.limits.contains(&charge.limit));
                    !charges.is_empty()
                }
                What::Reset { limit, .. }
                | What::Reload { limit, .. }
                | What::Change { limit, .. } => !name.limits.contains(limit),
            }
        });
        case
    }

    fn add(&mut self, extra: Extra) {
        match extra {
            Extra::Blocks(limit, block) => self.limits[limit].block = Some(block),
            Extra::Observed(limit) => self.limits[limit].is_observed = true,
            Extra::ByCalendar(limit) => self.limits[limit].kind = Kind::Calendar,
            Extra::Away(time) => self.away = Some(time),
            Extra::Cluster | Extra::Sentinels => {
                self.in_cluster = matches!(extra, Extra::Cluster);
                self.has_sentinels = !self.in_cluster;
                // Gateways get the servers' addresses from nodes and sentinels, so no proxy is between them. Only faults without a proxy
                // are possible.
                self.faults
                    .retain(|fault| fault.what == Mishap::GatewayEnded);
            }
            Extra::Exact => {
                for limit in &mut self.limits {
                    if matches!(limit.mode, Mode::Leased | Mode::Synced) {
                        limit.mode = Mode::Exact;
                    }
                }
            }
            Extra::Also(what, at) => self.faults.push(Fault {
                nth: FIRST_MORE + self.faults.len(),
                at,
                gateway: 0,
                what,
            }),
        }
    }

    /// The mode that a limit changes to while the trial runs.
    pub(crate) fn becomes(&self, nth: usize) -> Option<Mode> {
        let mut work = self.work.iter();
        work.find_map(|work| match work.what {
            What::Change {
                limit,
                change: Change::Mode(mode),
            } if limit == nth => Some(mode),
            _ => None,
        })
    }

    /// Whether Redis's clock is stepped.
    pub(crate) fn has_stepped_clock(&self) -> bool {
        let is_step = |fault: &Fault| matches!(fault.what, Mishap::ClockStepped(_));
        self.faults.iter().any(is_step)
    }

    /// Whether a fault affects the whole server.
    pub(crate) fn needs_own_server(&self) -> bool {
        self.away.is_some() || self.faults.iter().any(|fault| fault.what.is_of_server())
    }
}
