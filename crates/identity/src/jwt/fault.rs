//! Why a token names nobody, for `tidegate explain`.

use std::fmt;

use http::HeaderMap;
use jsonwebtoken::errors::ErrorKind;

use super::{MAX_TOKEN, Tokens};

/// Why a token names nobody. Nothing in it is of the token's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenFault {
    /// It is longer than any that is looked at.
    TooLong,
    /// It is no signed token.
    Malformed,
    /// Its header calls something critical, which is not understood here.
    Critical,
    /// It is signed by an algorithm that is not accepted.
    Algorithm,
    /// It names no key, and all keys of the set have names.
    KeyNotNamed,
    /// No key has the name that it says, and is for its algorithm.
    UnknownKey,
    /// Its signature is not that of the key.
    Signature,
    /// Its time is over.
    Expired,
    /// Its time has not begun.
    NotYetValid,
    /// It is for another audience.
    Audience,
    /// It is of another issuer.
    Issuer,
    /// Its claims are no JSON object, or one of them has another type than it must have.
    BadClaims,
    /// It lacks this claim, which the rules need.
    Missing(String),
    /// This claim of it holds no user ID.
    NoUser(String),
}

impl TokenFault {
    /// What a key says of a token, if that is more than what is known: a claim is looked at once the signature is right.
    pub(super) fn note(&mut self, error: &ErrorKind) {
        let found = match error {
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
        if *self == Self::UnknownKey || found != Self::Signature {
            *self = found;
        }
    }
}

impl fmt::Display for TokenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "the token is longer than {MAX_TOKEN} bytes"),
            Self::Malformed => f.write_str("it holds no signed token (JWT)"),
            Self::Critical => {
                f.write_str("the token needs an extension (`crit`) that is not known")
            }
            Self::Algorithm => f.write_str("`algorithms` does not list the token's algorithm"),
            Self::KeyNotNamed => {
                f.write_str("the token names no key (`kid`), and all keys of the set have names")
            }
            Self::UnknownKey => {
                f.write_str("there is no key with the name (`kid`) and algorithm of the token")
            }
            Self::Signature => f.write_str("the token's signature is wrong"),
            Self::Expired => f.write_str("the token has expired (`exp`)"),
            Self::NotYetValid => f.write_str("the token is not valid yet (`nbf`)"),
            Self::Audience => f.write_str("the token is for another audience (`aud`)"),
            Self::Issuer => f.write_str("the token is of another issuer (`iss`)"),
            Self::BadClaims => {
                f.write_str("a claim of the token has a wrong type, such as a list for a text")
            }
            Self::Missing(claim) => write!(f, "the token has no claim `{claim}`"),
            Self::NoUser(claim) => write!(f, "the token's claim `{claim}` holds no user ID"),
        }
    }
}

impl Tokens {
    /// Why the token of a request names nobody; none if it has none, or it names somebody.
    pub(crate) fn fault(&self, headers: &HeaderMap) -> Option<TokenFault> {
        let token = self.token(headers)?;
        if token.len() > MAX_TOKEN {
            return Some(TokenFault::TooLong);
        }
        if self.user(token).is_some() {
            return None;
        }
        let fault = self.verified(token).err();
        Some(fault.unwrap_or_else(|| TokenFault::NoUser(self.claim.clone())))
    }
}
