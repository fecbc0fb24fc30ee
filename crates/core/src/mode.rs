//! How gateways share a limit.

/// How the gateways on one Redis share a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Redis decides on every request.
    #[default]
    Exact,
    /// A gateway borrows a slice of a budget from Redis and spends it by itself; together they never spend more.
    Leased,
    /// Gateways count by themselves and tell Redis the differences now and then; only for window counters.
    Synced,
    /// Each gateway counts for itself, and Redis is never asked.
    Local,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Exact, Self::Leased, Self::Synced, Self::Local];

    /// Its name in YAML.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Leased => "leased",
            Self::Synced => "synced",
            Self::Local => "local",
        }
    }
}
