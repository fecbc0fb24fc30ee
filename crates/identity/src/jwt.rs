//! User IDs from signed tokens: the rules for tokens, and the keys for their signatures.
//!
//! The accepted algorithms are fixed when the token source is made, and are never taken from a token. A key verifies one algorithm, which
//! the key or the source names. So an attacker cannot use a public key as a shared secret. This module does not fetch keys. If a token
//! names a missing key, the module calls the function that was passed to [`TokenKeys::awaited`], so that other code can fetch keys.

mod fault;
mod keys;
mod signature;

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};
use jsonwebtoken::{Validation, decode, decode_header};
use serde_json::{Map, Value};

pub use fault::TokenFault;
pub use keys::{InvalidKey, TokenKeys};
pub use signature::Signature;

use crate::ClientPlans;
use crate::claims::{self, Claims};
use crate::plan::NamedPlan;

/// The longest token that is read, in bytes.
const MAX_TOKEN: usize = 8 * 1024;

/// The most keys that are tried for one token. Several keys may fit if the token or the keys have no key ID (`kid`).
const MAX_TRIES: usize = 8;

/// Returns the credentials after the scheme `Bearer`. Ignores the case of the scheme.
pub(crate) fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(7)?;
    let is_bearer = scheme.eq_ignore_ascii_case(b"bearer ");
    is_bearer.then(|| rest.trim_ascii())
}

/// The treatment of a token that is not valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InvalidToken {
    /// The next client source may name the client.
    #[default]
    FallThrough,
    /// The request is answered with 401.
    Reject,
}

/// The rules for valid tokens.
#[derive(Clone, Debug)]
pub struct TokenRules {
    /// The header that holds the token. In `Authorization`, the token follows `Bearer`.
    pub header: HeaderName,
    /// The accepted kinds of signatures. There is at least one.
    pub signatures: Vec<Signature>,
    /// The issuer that the token must name. `None` accepts every issuer.
    pub issuer: Option<String>,
    /// The audience that the token must name. `None` accepts every audience.
    pub audience: Option<String>,
    /// The allowed difference between clocks, in seconds.
    pub leeway: u64,
    /// The claim that holds the user ID. In each claim name of these rules, `a.b` is the member `b` of the object `a`.
    pub claim: String,
    /// The claim that holds the name of the user's plan. `None` if tokens name no plans.
    pub plan_claim: Option<String>,
    /// The claims that limits may be counted per.
    pub claims: Arc<[Arc<str>]>,
    /// All plans of the configuration.
    pub plans: ClientPlans,
    /// The treatment of a token that is not valid.
    pub invalid: InvalidToken,
}

/// A source of user IDs: tokens that satisfy these rules and are signed with any of these keys.
#[derive(Clone, Debug)]
pub struct Tokens {
    pub(crate) rules: TokenRules,
    /// One validation per accepted signature, because a validation accepts one algorithm.
    validations: Vec<Validation>,
    keys: TokenKeys,
}

/// The content of a valid token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TokenUser {
    pub(crate) id: Box<str>,
    pub(crate) plan: NamedPlan,
    /// The claims that limits may be counted per.
    pub(crate) claims: Claims,
}

impl Tokens {
    /// Makes a source of users by these rules and keys.
    pub fn new(rules: TokenRules, keys: TokenKeys) -> Self {
        let mut validation = Validation {
            leeway: rules.leeway,
            validate_nbf: true,
            validate_aud: rules.audience.is_some(),
            ..Validation::default()
        };
        let mut required = vec!["exp"];
        if let Some(issuer) = &rules.issuer {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        if let Some(audience) = &rules.audience {
            validation.set_audience(&[audience]);
            required.push("aud");
        }
        validation.set_required_spec_claims(&required);
        let validations = rules.signatures.iter().map(|signature| Validation {
            algorithms: vec![signature.algorithm()],
            ..validation.clone()
        });
        Self {
            validations: validations.collect(),
            rules,
            keys,
        }
    }

    /// Returns the header that holds the token.
    pub const fn header(&self) -> &HeaderName {
        &self.rules.header
    }

    /// Whether the source has any keys. A key set has no keys before it is fetched for the first time.
    pub fn has_keys(&self) -> bool {
        !self.keys.load().is_empty()
    }

    /// Whether the request has a token that cannot be verified, because there are no keys yet.
    pub fn is_undecided(&self, headers: &HeaderMap) -> bool {
        !self.has_keys() && self.token(headers).is_some()
    }

    /// Returns the token of a request, if the request has a token. If the header is there twice, returns an empty text, which is never a
    /// valid token.
    pub fn token<'a>(&self, headers: &'a HeaderMap) -> Option<&'a [u8]> {
        let mut values = headers.get_all(&self.rules.header).iter();
        let value = values.next()?.as_bytes().trim_ascii();
        if values.next().is_some() {
            return Some(b"");
        }
        match bearer(value) {
            Some(token) => Some(token),
            // Credentials with other schemes are for the upstream.
            None if self.rules.header == AUTHORIZATION => None,
            None => Some(value).filter(|value| !value.is_empty()),
        }
    }

    /// Whether tokens of this source may name the plan of a user.
    pub const fn tell_plans(&self) -> bool {
        self.rules.plan_claim.is_some()
    }

    /// Returns the user of a token. `None` if the token is not valid, or has no user ID.
    pub(crate) fn user(&self, token: &[u8]) -> Option<TokenUser> {
        if token.len() > MAX_TOKEN {
            return None;
        }
        let verified = self.verified(token).ok()?;
        let rules = &self.rules;
        let plan = rules.plan_claim.as_ref();
        let plan = plan.and_then(|claim| claims::at(&verified, claim));
        Some(TokenUser {
            id: claims::text(claims::at(&verified, &rules.claim)?)?,
            plan: plan.map_or(NamedPlan::Nothing, |plan| NamedPlan::by(plan, &rules.plans)),
            claims: Claims::of(&rules.claims, &verified),
        })
    }

    /// Returns the claims of a token that is signed with any of the keys and valid now.
    fn verified(&self, token: &[u8]) -> Result<Map<String, Value>, TokenFault> {
        let header = decode_header(token).map_err(|_| TokenFault::Malformed)?;
        // Critical extensions (RFC 7515, 4.1.11) are not supported.
        if header.crit.is_some() {
            return Err(TokenFault::Critical);
        }
        let mut validations = self.validations.iter();
        let validation = validations.find(|it| it.algorithms.contains(&header.alg));
        let validation = validation.ok_or(TokenFault::Algorithm)?;
        let id = header.kid.as_deref();
        let keys = self.keys.load();
        // One verification takes about the time of a whole request. If all keys have IDs, a token without a key ID is refused. Otherwise
        // the token would have to be verified with every key.
        if id.is_none() && keys.iter().all(|key| key.id.is_some()) {
            return Err(TokenFault::KeyNotNamed);
        }
        let candidates = keys
            .iter()
            .filter(|key| key.may_have_signed(header.alg, id));
        let mut fault = TokenFault::UnknownKey;
        let verified = candidates.take(MAX_TRIES).find_map(|key| {
            let decoded = decode(token, &key.key, validation);
            decoded.map_err(|error| fault.note(error.kind())).ok()
        });
        let claims = verified.map(|token| token.claims);
        if claims.is_none() && id.is_some() && keys.iter().all(|key| key.id.as_deref() != id) {
            self.keys.tell_missed();
        }
        claims.ok_or(fault)
    }
}

#[cfg(test)]
mod tests;
