//! Which budgets of a client are known without a request.

use super::{Per, Rule};
use tidegate_identity::Client;

/// Whose budget a limit is, as far as one client's name can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// The client's own, one per route if it is counted per route.
    Own,
    /// The client's own, but it takes a request to say which of several.
    OfRequest,
    /// Not this client's alone.
    Shared,
}

impl Rule {
    /// Whose budget this limit is, for a [named](Caller::named) client.
    pub fn budget_of(&self, client: &Client) -> Budget {
        if !self.per.iter().all(|per| per.is_told_by(client)) {
            Budget::OfRequest
        } else if self.is_callers() {
            Budget::Own
        } else {
            Budget::Shared
        }
    }
}

impl Per {
    /// Whether a client's name, or the route's, says under what this counts.
    const fn is_told_by(&self, client: &Client) -> bool {
        match self {
            Self::Client | Self::Route => true,
            // A token says which claims a client has. An address alone has none.
            Self::Ip | Self::Network(_) | Self::Claim(_) => matches!(client, Client::Ip(_)),
            // Who has none counts under the address.
            Self::ApiKey => !matches!(client, Client::UserId(_) | Client::Certificate(_)),
            Self::ClientCert => matches!(client, Client::Certificate(_) | Client::Ip(_)),
            Self::UserId => matches!(client, Client::UserId(_) | Client::Ip(_)),
            Self::Method
            | Self::Host
            | Self::Header(_)
            | Self::Cookie(_)
            | Self::Path(_)
            | Self::Query(_) => false,
        }
    }
}

#[cfg(test)]
mod tests;
