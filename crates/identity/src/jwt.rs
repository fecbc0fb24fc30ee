//! User IDs from signed tokens: what a token must be, and which keys its signature is tried with.
//!
//! Which algorithms are accepted is fixed when the source is made, and is never taken from a token. A key verifies one algorithm,
//! which the key or the source says. So a public key can never pass for a shared secret. Keys are handed in; nothing here fetches any,
//! but a token that names a key which is not among them is told of.

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

/// The longest token that is looked at, in bytes.
const MAX_TOKEN: usize = 8 * 1024;

/// The most keys of a set that a token is tried with, where they have no IDs.
const MAX_TRIES: usize = 8;

/// The credentials behind the scheme `Bearer`, in letters of either case.
pub(crate) fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(7)?;
    let is_bearer = scheme.eq_ignore_ascii_case(b"bearer ");
    is_bearer.then(|| rest.trim_ascii())
}

/// What becomes of a token that is not valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InvalidToken {
    /// The next source names the client.
    #[default]
    FallThrough,
    /// 401.
    Reject,
}

/// What a token must be.
#[derive(Clone, Debug)]
pub struct TokenRules {
    /// The header that holds it; in `Authorization` behind `Bearer`.
    pub header: HeaderName,
    /// The signatures that are accepted; at least one.
    pub signatures: Vec<Signature>,
    /// The issuer that it must name, if any.
    pub issuer: Option<String>,
    /// The audience that it must name, if any.
    pub audience: Option<String>,
    /// How far clocks may differ, in seconds.
    pub leeway: u64,
    /// The claim that holds the user ID. As in all names of claims, a dot leads into an object.
    pub claim: String,
    /// The claim that holds the name of the user's plan, if any does.
    pub plan_claim: Option<String>,
    /// The claims that limits may be counted per.
    pub claims: Arc<[Arc<str>]>,
    /// The plans that there are.
    pub plans: ClientPlans,
    /// What becomes of one that is not valid.
    pub invalid: InvalidToken,
}

/// A source of user IDs: tokens that keep these rules and are signed with one of these keys.
#[derive(Clone, Debug)]
pub struct Tokens {
    pub(crate) rules: TokenRules,
    /// One per signature that is accepted: each is for one kind of key.
    validations: Vec<Validation>,
    keys: TokenKeys,
}

/// What a valid token says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TokenUser {
    pub(crate) id: Box<str>,
    pub(crate) plan: NamedPlan,
    /// The claims that limits may be counted per.
    pub(crate) claims: Claims,
}

impl Tokens {
    /// A source of users by these rules and keys.
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
        let validation_of = |signature: &Signature| Validation {
            algorithms: vec![signature.algorithm()],
            ..validation.clone()
        };
        Self {
            validations: rules.signatures.iter().map(validation_of).collect(),
            rules,
            keys,
        }
    }

    /// The header that it looks into.
    pub const fn header(&self) -> &HeaderName {
        &self.rules.header
    }

    /// Whether there are any keys yet: a set that was never fetched has none.
    pub fn has_keys(&self) -> bool {
        !self.keys.load().is_empty()
    }

    /// Whether the request has a token that nothing can be said of, because there are no keys yet.
    pub fn is_undecided(&self, headers: &HeaderMap) -> bool {
        !self.has_keys() && self.token(headers).is_some()
    }

    /// The token of a request, if it has one: two are as bad as one that is not valid.
    pub fn token<'a>(&self, headers: &'a HeaderMap) -> Option<&'a [u8]> {
        let mut values = headers.get_all(&self.rules.header).iter();
        let value = values.next()?.as_bytes().trim_ascii();
        if values.next().is_some() {
            return Some(b"");
        }
        match bearer(value) {
            Some(token) => Some(token),
            // Other schemes are for the API behind.
            None if self.rules.header == AUTHORIZATION => None,
            None => Some(value).filter(|value| !value.is_empty()),
        }
    }

    /// Whether its tokens may say which plan a user has.
    pub const fn tell_plans(&self) -> bool {
        self.rules.plan_claim.is_some()
    }

    /// What a token says of its user, if it is valid.
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

    /// The claims of a token that one of the keys has signed, and that is in force.
    fn verified(&self, token: &[u8]) -> Result<Map<String, Value>, TokenFault> {
        let header = decode_header(token).map_err(|_| TokenFault::Malformed)?;
        // What a header calls critical (RFC 7515, 4.1.11) is not understood here.
        if header.crit.is_some() {
            return Err(TokenFault::Critical);
        }
        let mut validations = self.validations.iter();
        let validation = validations.find(|known| known.algorithms.contains(&header.alg));
        let validation = validation.ok_or(TokenFault::Algorithm)?;
        let id = header.kid.as_deref();
        let keys = self.keys.load();
        // Each verification costs what a request costs, so a set that names its keys is not tried through.
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
        let is_named = |id: &str| keys.iter().any(|key| key.id.as_deref() == Some(id));
        if claims.is_none() && id.is_some_and(|id| !is_named(id)) {
            self.keys.tell_missed();
        }
        claims.ok_or(fault)
    }
}

#[cfg(test)]
mod tests;
