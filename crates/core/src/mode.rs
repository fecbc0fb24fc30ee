//! The modes of a limit.

/// The way in which the gateways on one Redis share a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Redis decides every request.
    #[default]
    Exact,
    /// A gateway borrows a slice of a budget from Redis and spends it by itself. Together they never spend more than the budget.
    Leased,
    /// Gateways count by themselves, and exchange counts through Redis now and then. Only for window counters.
    Synced,
    /// Each gateway counts for itself, without Redis.
    Local,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 4] = [Self::Exact, Self::Leased, Self::Synced, Self::Local];

    /// Returns its name in YAML.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Leased => "leased",
            Self::Synced => "synced",
            Self::Local => "local",
        }
    }
}
