//! What a route enforces: its rules, each a limit and what it is counted per.

use std::sync::Arc;

use tidegate_store::Limit;

/// One thing that a limit is counted per.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// Whoever is calling, as the first client source that answers names them.
    Client,
    /// The caller's address.
    Ip,
    /// The API key's name; without one, the caller's address.
    ApiKey,
    /// The user ID; without one, the caller's address.
    UserId,
    /// The route's name.
    Route,
    /// The request's method; `HEAD` counts as `GET`.
    Method,
    /// The host that was asked for.
    Host,
}

impl Per {
    /// All of them with their names in YAML.
    pub const ALL: [(&'static str, Self); 7] = [
        ("client", Self::Client),
        ("ip", Self::Ip),
        ("api_key", Self::ApiKey),
        ("user_id", Self::UserId),
        ("route", Self::Route),
        ("method", Self::Method),
        ("host", Self::Host),
    ];

    /// Whether it is the caller's own, so that its numbers may be shown to them.
    pub const fn is_callers(self) -> bool {
        matches!(self, Self::Client | Self::Ip | Self::ApiKey | Self::UserId)
    }
}

/// A limit as a route is charged to it.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The limit.
    pub limit: Arc<Limit>,
    /// What it is counted per; empty: one budget for all.
    pub per: Arc<[Per]>,
}

impl Rule {
    /// Whether the limit's numbers may be shown to an admitted caller: only what is counted for them alone.
    pub fn is_shown(&self) -> bool {
        self.per.iter().any(|per| per.is_callers())
    }
}

/// Everything that one route enforces.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The route's name, for limits counted per route.
    pub route: Arc<str>,
    /// The limits, in the order in which they are charged; at most [`tidegate_store::MAX_CHARGES`].
    pub rules: Arc<[Rule]>,
}
