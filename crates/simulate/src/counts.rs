//! Counts of requests that are worth a note.

use tidegate_identity::Client;

/// Requests that the limits did not decide, and others worth a note.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    /// No route took them: only limits under `always` count.
    pub(crate) unrouted: u64,
    /// The log lacks facts to find the route.
    pub(crate) unsure: u64,
    pub(crate) denied: u64,
    pub(crate) oversized: u64,
    /// The gateway shed them without a decision of the limits: memory was short.
    pub(crate) shed: u64,
    /// Their credentials are refused: only limits under `always` count them.
    pub(crate) credentials_refused: u64,
    /// Limits refused them when they were logged.
    pub(crate) limited_before: u64,
}

/// The number of clients, as far as it matters.
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
            Self::One(known) if known == client => {}
            Self::One(_) => *self = Self::Several,
        }
    }
}
