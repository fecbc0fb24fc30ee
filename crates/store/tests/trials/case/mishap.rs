//! What may go wrong in a trial.

use tidegate_testkit::CallFault;

/// What goes wrong; times in ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// So many script calls of one gateway, each after `skip` others.
    Calls {
        fault: CallFault,
        skip: usize,
        times: usize,
    },
    /// A gateway's connections are reset.
    Cut,
    /// A gateway does nothing, and nothing reaches it.
    Paused(u64),
    /// A gateway is killed, and another starts.
    GatewayKilled,
    /// A gateway ends in order, and another starts.
    GatewayEnded,
    /// Redis is stopped, and goes on (SIGSTOP).
    Frozen(u64),
    /// Redis does not execute commands (CLIENT PAUSE).
    ClientsPaused(u64),
    /// Redis is killed and starts with its data.
    Killed(u64),
    /// Redis is killed and starts without its data.
    Emptied(u64),
    /// Redis forgets its scripts.
    ScriptsFlushed,
    /// Redis closes all connections.
    ClientsKilled,
    /// The slot of this key goes to another node of the cluster.
    SlotMoved(u64),
    /// The replica of the node that has this key takes over in order.
    FailedOver(u64),
    /// It takes over when it has missed so many ms.
    Promoted(u64, u64),
    /// The node that has this key forgets its scripts.
    NodeFlushed(u64),
    /// It is stopped for so many ms, and goes on.
    NodeFrozen(u64, u64),
    /// The sentinels make a replica the primary, and the old one takes writes for a moment more.
    SentinelsAsked,
    /// As that, with replicas that have missed so many ms.
    SentinelsBehind(u64),
    /// The primary is killed, and the sentinels make a replica the primary.
    PrimaryKilled,
    /// The primary is stopped for so many ms, and goes on.
    PrimaryFrozen(u64),
    /// The primary forgets its scripts.
    PrimaryFlushed,
    /// Redis's clock is stepped by so many ms.
    ClockStepped(i64),
}

impl Mishap {
    /// What it is called in figures.
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

    /// Whether it concerns the nodes of a cluster.
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

    /// Whether it concerns the servers that sentinels watch.
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

    /// Whether it concerns all who use the server.
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
