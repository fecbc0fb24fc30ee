//! The credentials that the configuration requires.

use std::fmt;

use super::{Caller, Client};

/// The credentials that a request must show. A request without them is answered with 401.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Required {
    /// A listed API key.
    ApiKey,
    /// A valid token.
    Token,
    /// A listed API key, a valid token, a user ID of a trusted proxy, or a name in a verified certificate.
    Verified,
}

impl Required {
    /// Returns the word for these credentials in the configuration.
    pub const fn word(self) -> &'static str {
        match self {
            Self::ApiKey => "api_key",
            Self::Token => "jwt",
            Self::Verified => "verified",
        }
    }

    pub(crate) fn is_shown_by(self, caller: &Caller) -> bool {
        let has_key = matches!(caller.api_key, Some(Client::ApiKey(_)));
        match self {
            Self::ApiKey => has_key,
            Self::Token => caller.has_token,
            Self::Verified => has_key || caller.user_id.is_some() || caller.client_cert.is_some(),
        }
    }
}

impl fmt::Display for Required {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
