//! Explains why a token names no client, for `tidegate explain`.

use http::HeaderMap;
use jsonwebtoken::errors::ErrorKind;

use super::{MAX_TOKEN, Tokens};

/// The reason why a token names no client. The reason contains no text of the token, because the token may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    /// The token is longer than `MAX_TOKEN`.
    #[error("the token is longer than {} bytes", MAX_TOKEN)]
    TooLong,
    /// The text in the header is not a signed token.
    #[error("it holds no signed token (JWT)")]
    Malformed,
    /// The token's header has a critical extension (`crit`). The gateway supports no such extension.
    #[error("the token needs an extension (`crit`) that is not known")]
    Critical,
    /// The token is signed with an algorithm that the token source does not accept.
    #[error("`algorithms` does not list the token's algorithm")]
    Algorithm,
    /// The token names no key, and all keys of the set have names.
    #[error("the token names no key (`kid`), and all keys of the set have names")]
    KeyNotNamed,
    /// No key has both the name and the algorithm of the token.
    #[error("there is no key with the name (`kid`) and algorithm of the token")]
    UnknownKey,
    /// The token's signature does not match the key.
    #[error("the token's signature is wrong")]
    Signature,
    /// The token has expired.
    #[error("the token has expired (`exp`)")]
    Expired,
    /// The token is not valid yet.
    #[error("the token is not valid yet (`nbf`)")]
    NotYetValid,
    /// The token is for another audience.
    #[error("the token is for another audience (`aud`)")]
    Audience,
    /// The token is from another issuer.
    #[error("the token is of another issuer (`iss`)")]
    Issuer,
    /// The token's claims are not a JSON object, or a claim does not have the required type.
    #[error("a claim of the token has a wrong type, such as a list for a text")]
    BadClaims,
    /// The token lacks this claim, which the rules require.
    #[error("the token has no claim `{0}`")]
    Missing(String),
    /// This claim holds no user ID.
    #[error("the token's claim `{0}` holds no user ID")]
    NoUser(String),
}

impl TokenFault {
    /// Replaces this fault by the fault that the verification with a key found, if the new fault is more precise. A fault of a claim is
    /// more precise than a wrong signature, because claims are checked after the signature.
    pub(super) fn note(&mut self, error: &ErrorKind) {
        let fault = match error {
            ErrorKind::ExpiredSignature => Self::Expired,
            ErrorKind::ImmatureSignature => Self::NotYetValid,
            ErrorKind::InvalidAudience => Self::Audience,
            ErrorKind::InvalidIssuer => Self::Issuer,
            ErrorKind::MissingRequiredClaim(name) => Self::Missing(name.clone()),
            ErrorKind::InvalidClaimFormat(_) | ErrorKind::Json(_) | ErrorKind::Utf8(_) => {
                Self::BadClaims
            }
            _ => Self::Signature,
        };
        if *self == Self::UnknownKey || fault != Self::Signature {
            *self = fault;
        }
    }
}

impl Tokens {
    /// Returns the reason why the token of a request names no client. `None` if there is no token, or if the token names a client.
    pub(crate) fn fault(&self, headers: &HeaderMap) -> Option<TokenFault> {
        let token = self.token(headers)?;
        if token.len() > MAX_TOKEN {
            return Some(TokenFault::TooLong);
        }
        if self.user(token).is_some() {
            return None;
        }
        let fault = self.verified(token).err();
        Some(fault.unwrap_or_else(|| TokenFault::NoUser(self.rules.claim.clone())))
    }
}
