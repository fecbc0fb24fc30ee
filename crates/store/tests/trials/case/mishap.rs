//! The kinds of faults in a trial.

use tidegate_testkit::CallFault;

/// A kind of fault. Times are in ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// This fault strikes `times` script calls of one gateway. `skip` calls pass before it.
    Calls {
        fault: CallFault,
        skip: usize,
        times: usize,
    },
    /// A gateway's connections are reset.
    Cut,
    /// A gateway stands still, and receives no messages.
    Paused(u64),
    /// A gateway is killed, and another starts.
    GatewayKilled,
    /// A gateway shuts down in order, and another starts.
    GatewayEnded,
    /// Redis is frozen (SIGSTOP), and continues after this time.
    Frozen(u64),
    /// Redis does not execute commands (CLIENT PAUSE).
    ClientsPaused(u64),
    /// Redis is killed and starts with its data.
    Killed(u64),
    /// Redis is killed and starts without its data.
    Emptied(u64),
    /// The scripts in Redis are flushed.
    ScriptsFlushed,
    /// Redis closes all connections.
    ClientsKilled,
    /// The slot of this key moves to another node of the cluster.
    SlotMoved(u64),
    /// The replica of this key's node takes over in an orderly failover.
    FailedOver(u64),
    /// The replica of this key's node takes over after it has missed the writes of this time.
    Promoted(u64, u64),
    /// The scripts in the node of this key are flushed.
    NodeFlushed(u64),
    /// The node of this key is frozen for this time.
    NodeFrozen(u64, u64),
    /// The sentinels make a replica the primary. The old primary accepts writes for a moment more.
    SentinelsAsked,
    /// The same, with replicas that have missed the writes of this time.
    SentinelsBehind(u64),
    /// The primary is killed, and the sentinels make a replica the primary.
    PrimaryKilled,
    /// The primary is frozen for this time.
    PrimaryFrozen(u64),
    /// The scripts in the primary are flushed.
    PrimaryFlushed,
    /// Redis's clock is stepped by this number of ms.
    ClockStepped(i64),
}

impl Mishap {
    /// Its name in figures.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Calls { fault, .. } => match fault {
                CallFault::Unsent => "call lost",
                CallFault::HalfSent => "call cut",
                CallFault::SentLate(_) => "call late",
                CallFault::Unanswered => "answer lost",
                CallFault::HalfAnswered => "answer cut",
                CallFault::AnsweredLate(_) => "answer late",
                CallFault::Refused(_) => "call refused",
            },
            Self::Cut => "connection reset",
            Self::Paused(_) => "gateway paused",
            Self::GatewayKilled => "gateway killed",
            Self::GatewayEnded => "gateway restarted",
            Self::Frozen(_) => "Redis frozen",
            Self::ClientsPaused(_) => "Redis paused",
            Self::Killed(_) => "Redis killed",
            Self::Emptied(_) => "Redis emptied",
            Self::ScriptsFlushed => "scripts flushed",
            Self::ClientsKilled => "clients killed",
            Self::SlotMoved(_) => "slot moved",
            Self::FailedOver(_) => "replica takes over",
            Self::Promoted(..) => "replica behind promoted",
            Self::NodeFlushed(_) => "scripts of a node flushed",
            Self::NodeFrozen(..) => "node frozen",
            Self::SentinelsAsked => "failover by sentinels",
            Self::SentinelsBehind(_) => "failover by sentinels, replicas behind",
            Self::PrimaryKilled => "primary killed",
            Self::PrimaryFrozen(_) => "primary frozen",
            Self::PrimaryFlushed => "scripts of a primary flushed",
            Self::ClockStepped(by) if *by < 0 => "Redis's clock stepped back",
            Self::ClockStepped(_) => "Redis's clock stepped forward",
        }
    }

    /// Whether it affects a node of a cluster.
    pub(crate) const fn is_of_cluster(&self) -> bool {
        matches!(
            self,
            Self::SlotMoved(_)
                | Self::FailedOver(_)
                | Self::Promoted(..)
                | Self::NodeFlushed(_)
                | Self::NodeFrozen(..)
        )
    }

    /// Whether it affects a server that sentinels watch.
    pub(crate) const fn is_of_sentinels(&self) -> bool {
        matches!(
            self,
            Self::SentinelsAsked
                | Self::SentinelsBehind(_)
                | Self::PrimaryKilled
                | Self::PrimaryFrozen(_)
                | Self::PrimaryFlushed
        )
    }

    /// Whether it affects all trials that use the server.
    pub(crate) const fn is_of_server(&self) -> bool {
        matches!(
            self,
            Self::Frozen(_)
                | Self::ClientsPaused(_)
                | Self::Killed(_)
                | Self::Emptied(_)
                | Self::ScriptsFlushed
                | Self::ClientsKilled
                | Self::ClockStepped(_)
        )
    }
}
