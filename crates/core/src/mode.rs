//! The modes of a limit.

/// The way in which the gateways on one Redis share a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Redis decides every request.
    #[default]
    Exact,
    /// Each gateway borrows a slice of a budget from Redis and spends the slice by itself. All gateways together never spend more than the
    /// budget.
    Leased,
    /// Each gateway counts by itself, and sends and receives counts through Redis at intervals. Only algorithms that count per window have
    /// this mode.
    Synced,
    /// Each gateway counts for itself, without Redis.
    Local,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 4] = [Self::Exact, Self::Leased, Self::Synced, Self::Local];

    /// Returns the mode's name in YAML.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Leased => "leased",
            Self::Synced => "synced",
            Self::Local => "local",
        }
    }
}
