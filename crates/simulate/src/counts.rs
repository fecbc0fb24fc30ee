//! Counts of requests that the report lists separately.

use tidegate_identity::Client;

/// Counts of requests that the limits did not decide, and of other requests that the report lists separately.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    /// Requests without a route. Only limits under `always` count them.
    pub(crate) unrouted: u64,
    /// Requests whose route is unknown, because the log lacks a fact.
    pub(crate) unsure: u64,
    pub(crate) denied: u64,
    pub(crate) oversized: u64,
    /// Requests that the gateway shed without a decision of the limits, because memory was short.
    pub(crate) shed: u64,
    /// Requests with refused credentials. Only limits under `always` count them.
    pub(crate) credentials_refused: u64,
    /// Requests that limits refused when the log was written.
    pub(crate) limited_before: u64,
}

/// The clients of the requests: none, one, or several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Clients {
    #[default]
    None,
    One(Client),
    Several,
}

impl Clients {
    /// Counts the client of a request.
    pub(crate) fn note(&mut self, client: &Client) {
        match self {
            Self::Several => {}
            Self::None => *self = Self::One(client.clone()),
            Self::One(previous) if previous == client => {}
            Self::One(_) => *self = Self::Several,
        }
    }
}
