//! The case of a trial: its gateways, its work and its faults. All of it follows from a seed, and parts of it can be left out.

use tidegate_testkit::CallFault;
use tidegate_testkit::trials::Name;

/// A case; times in ms.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: Name,
    pub(crate) gateways: usize,
    pub(crate) work: Vec<Work>,
    pub(crate) faults: Vec<Fault>,
    /// The servers: one, or a primary with replicas and sentinels.
    pub(crate) has_sentinels: bool,
    pub(crate) extras: Vec<(usize, Extra)>,
}

/// A part of a case that can be left out alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extra {
    /// Redis is away when the gateways start, for this long.
    Away(u64),
    /// There are more other overrides than one answer of Redis holds.
    Many,
    /// Entries that are over are dropped soon, and a gateway may be away for longer. Redis loses no data.
    Forgetful,
}

/// Changes of overrides, made in one call.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) nth: usize,
    pub(crate) at: u64,
    pub(crate) gateway: usize,
    pub(crate) changes: Vec<Change>,
}

/// A change of one override.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) subject: usize,
    pub(crate) condition: Condition,
    /// The end of the override that is set; none: the override is cleared.
    pub(crate) sets: Option<Ends>,
}

/// The override that must be in force for a change to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Any,
    Nothing,
    /// The override that the gateway lists.
    Listed,
}

/// The end of an override.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    Never,
    After(u64),
    /// This long after the gateway's estimate of Redis's time.
    At(u64),
}

/// A fault.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) nth: usize,
    pub(crate) at: u64,
    pub(crate) gateway: usize,
    pub(crate) mishap: Mishap,
}

/// A kind of fault; times in ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// Some script calls of a gateway, each after `skip` others.
    Calls {
        fault: CallFault,
        skip: usize,
        times: usize,
    },
    /// A gateway's connections are reset.
    Reset,
    /// A gateway's connections are reset and refused.
    CutOff(u64),
    /// A gateway's connection carries no bytes; the gateway runs on.
    Stalled(u64),
    /// A gateway does not run, and its connection stays alive.
    Paused(u64),
    /// A gateway does not run, and its connections are refused.
    PausedAndCutOff(u64),
    /// A gateway is killed, and another starts this long after.
    Killed(u64),
    /// Redis is stopped and goes on (SIGSTOP).
    RedisFrozen(u64),
    /// Redis is killed and starts with its data.
    RedisKilled(u64),
    /// Redis is killed and starts without data.
    RedisEmptied(u64),
    /// Redis is killed and starts with its data of this long ago.
    RedisOlder(u64),
    /// Redis's clock is stepped by this much.
    ClockStepped(i64),
    /// A replica becomes the primary.
    FailedOver,
    /// A replica that has missed this long becomes the primary.
    FailedOverBehind(u64),
    /// The primary is killed, and a replica takes over.
    PrimaryKilled,
}

impl Mishap {
    /// Returns its name in figures.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Calls { fault, .. } => match fault {
                CallFault::Unsent => "call lost",
                CallFault::Refused(_) => "call refused",
                CallFault::HalfSent => "call cut",
                CallFault::SentLate(_) => "call late",
                CallFault::Unanswered => "answer lost",
                CallFault::HalfAnswered => "answer cut",
                CallFault::AnsweredLate(_) => "answer late",
            },
            Self::Reset => "connection reset",
            Self::CutOff(_) => "gateway cut off",
            Self::Stalled(_) => "connection stalled",
            Self::Paused(_) => "gateway paused",
            Self::PausedAndCutOff(_) => "gateway paused and cut off",
            Self::Killed(_) => "gateway killed",
            Self::RedisFrozen(_) => "Redis frozen",
            Self::RedisKilled(_) => "Redis killed",
            Self::RedisEmptied(_) => "Redis emptied",
            Self::RedisOlder(_) => "Redis with older data",
            Self::ClockStepped(by) if *by < 0 => "Redis's clock stepped back",
            Self::ClockStepped(_) => "Redis's clock stepped forward",
            Self::FailedOver => "failover",
            Self::FailedOverBehind(_) => "failover, replica behind",
            Self::PrimaryKilled => "primary killed",
        }
    }

    /// Whether it concerns all users of the server.
    pub(crate) const fn is_of_server(&self) -> bool {
        matches!(
            self,
            Self::RedisFrozen(_)
                | Self::RedisKilled(_)
                | Self::RedisEmptied(_)
                | Self::RedisOlder(_)
                | Self::ClockStepped(_)
        )
    }

    /// Whether a single server loses data by it.
    const fn loses_data(&self) -> bool {
        matches!(self, Self::RedisEmptied(_) | Self::RedisOlder(_))
    }

    /// Whether it concerns servers that sentinels watch.
    pub(crate) const fn is_of_sentinels(&self) -> bool {
        matches!(
            self,
            Self::FailedOver | Self::FailedOverBehind(_) | Self::PrimaryKilled
        )
    }
}

impl Case {
    /// Returns the case of a seed, without the parts that are left out.
    pub(crate) fn of(name: &Name) -> Self {
        let mut case = crate::generate::case(name.seed);
        case.name = name.clone();
        case.work.retain(|work| !name.work.contains(&work.nth));
        case.faults
            .retain(|fault| !name.faults.contains(&fault.nth));
        case.extras.retain(|(nth, _)| !name.extras.contains(nth));
        if case.is_forgetful() {
            case.faults.retain(|fault| !fault.mishap.loses_data());
        }
        case
    }

    pub(crate) fn has_stepped_clock(&self) -> bool {
        let is_step = |fault: &Fault| matches!(fault.mishap, Mishap::ClockStepped(_));
        self.faults.iter().any(is_step)
    }

    pub(crate) fn needs_own_server(&self) -> bool {
        self.away().is_some() || self.faults.iter().any(|fault| fault.mishap.is_of_server())
    }

    pub(crate) fn away(&self) -> Option<u64> {
        self.extras.iter().find_map(|(_, extra)| match extra {
            Extra::Away(time) => Some(*time),
            Extra::Many | Extra::Forgetful => None,
        })
    }

    pub(crate) fn is_forgetful(&self) -> bool {
        let mut extras = self.extras.iter();
        extras.any(|(_, extra)| *extra == Extra::Forgetful)
    }

    pub(crate) fn has_many(&self) -> bool {
        self.extras.iter().any(|(_, extra)| *extra == Extra::Many)
    }
}
