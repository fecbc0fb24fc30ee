//! User IDs from signed tokens: what a token must be, and which keys its signature is tried with.
//!
//! Which algorithms are accepted is fixed when the source is made, and is never taken from a token. A key only verifies the
//! algorithms of its own family. So a public key can never pass for a shared secret. Keys are handed in; nothing here fetches any,
//! but a token that names a key which is not among them is told of.

mod signature;

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::{Map, Value};

pub use signature::Signature;

use crate::ClientPlans;
use crate::plan::NamedPlan;

/// The longest token that is looked at, in bytes.
const MAX_TOKEN: usize = 8 * 1024;

/// The most keys of a set that a token is tried with, where they have no IDs.
const MAX_TRIES: usize = 8;

/// The smallest RSA key that verifies anything: 2,048 bits (RFC 7518, 3.3), in bytes.
const RSA_BYTES: usize = 256;

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
    /// The claim that holds the user ID.
    pub claim: String,
    /// The claim that holds the name of the user's plan, if any does.
    pub plan_claim: Option<String>,
    /// The plans that there are.
    pub plans: ClientPlans,
    /// What becomes of one that is not valid.
    pub invalid: InvalidToken,
}

/// A source of user IDs: tokens that keep these rules and are signed with one of these keys.
#[derive(Clone)]
pub struct Tokens {
    header: HeaderName,
    claim: String,
    plan_claim: Option<String>,
    plans: ClientPlans,
    /// One per signature that is accepted: each is for one kind of key.
    validations: Vec<Validation>,
    pub(crate) invalid: InvalidToken,
    keys: TokenKeys,
}

/// The keys that tokens are verified with; cheap to clone, and all clones see a replacement.
#[derive(Clone, Default)]
pub struct TokenKeys {
    keys: Arc<ArcSwap<Vec<Key>>>,
    /// Called for a token that names a key which is not among them.
    missed: Option<Arc<dyn Fn() + Send + Sync>>,
}

struct Key {
    id: Option<String>,
    algorithm: Option<Algorithm>,
    key: DecodingKey,
}

/// Why a file or a key set holds no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidKey;

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no key for these algorithms in it")
    }
}

impl std::error::Error for InvalidKey {}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the keys: one of them may be a secret.
        f.debug_struct("Tokens")
            .field("header", &self.header)
            .field("claim", &self.claim)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TokenKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenKeys({})", self.keys.load().len())
    }
}

impl TokenKeys {
    /// No keys as yet: no token is valid until [`replace`](Self::replace) brings some.
    ///
    /// `missed` is called whenever a token that could be accepted names a key which is not among them. It runs while the
    /// request does, so it must not wait for anything.
    pub fn awaited(missed: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            keys: Arc::default(),
            missed: Some(Arc::new(missed)),
        }
    }

    /// The one key of a file: a secret for HS256, else a public key in PEM.
    ///
    /// # Errors
    ///
    /// The file holds no key for these signatures.
    pub fn from_file(signatures: &[Signature], content: &[u8]) -> Result<Self, InvalidKey> {
        let key = match signatures.first().ok_or(InvalidKey)? {
            Signature::Hs256 => match content.trim_ascii_end() {
                // A public key is everybody's, and so would be tokens that are signed with it.
                [] | [b'-', b'-', b'-', b'-', b'-', ..] => return Err(InvalidKey),
                secret => Ok(DecodingKey::from_secret(secret)),
            },
            Signature::Rs256 if is_private(content) || pem_length(content) < RSA_BYTES => {
                return Err(InvalidKey);
            }
            Signature::Rs256 => DecodingKey::from_rsa_pem(content),
            Signature::Es256 => DecodingKey::from_ec_pem(content),
            Signature::EdDsa => DecodingKey::from_ed_pem(content),
        };
        let key = Key {
            id: None,
            algorithm: None,
            key: key.map_err(|_| InvalidKey)?,
        };
        Ok(Self {
            keys: Arc::new(ArcSwap::from_pointee(vec![key])),
            missed: None,
        })
    }

    /// Replaces all known keys by those of a JWK set (RFC 7517), and returns how many they are. If the set holds none, the keys
    /// before stay.
    ///
    /// # Errors
    ///
    /// The set is not a JWK set. The keys before stay.
    pub fn replace(&self, signatures: &[Signature], set: &[u8]) -> Result<usize, InvalidKey> {
        let mut set: Value = serde_json::from_slice(set).map_err(|_| InvalidKey)?;
        let Some(Value::Array(jwks)) = set.get_mut("keys").map(Value::take) else {
            return Err(InvalidKey);
        };
        // A set may hold keys of kinds that are not known here (RFC 7517, 5).
        let jwks = jwks
            .into_iter()
            .filter_map(|jwk| serde_json::from_value(jwk).ok());
        let keys: Vec<Key> = jwks
            .filter_map(|jwk| Key::from_jwk(signatures, &jwk))
            .collect();
        let count = keys.len();
        if count == 0 {
            return Err(InvalidKey);
        }
        self.keys.store(Arc::new(keys));
        Ok(count)
    }

    fn tell_missed(&self) {
        if let Some(missed) = &self.missed {
            missed();
        }
    }
}

/// A private key is no business of a gateway's.
fn is_private(pem: &[u8]) -> bool {
    pem.windows(11).any(|word| word == b"PRIVATE KEY")
}

/// How many bytes a PEM file's content is, about: what it adds to an RSA key's modulus is less than a hundred.
fn pem_length(pem: &[u8]) -> usize {
    let lines = pem.split(|byte| *byte == b'\n');
    let content = lines.filter(|line| !line.starts_with(b"-----"));
    base64_length(content.map(|line| line.trim_ascii().len()).sum())
}

const fn base64_length(digits: usize) -> usize {
    digits * 3 / 4
}

impl Key {
    fn from_jwk(signatures: &[Signature], jwk: &Jwk) -> Option<Self> {
        let algorithm = match jwk.common.key_algorithm {
            None => None,
            Some(KeyAlgorithm::HS256) => Some(Algorithm::HS256),
            Some(KeyAlgorithm::RS256) => Some(Algorithm::RS256),
            Some(KeyAlgorithm::ES256) => Some(Algorithm::ES256),
            Some(KeyAlgorithm::EdDSA) => Some(Algorithm::EdDSA),
            Some(_) => return None,
        };
        let public_use = &jwk.common.public_key_use;
        let verifies = matches!(public_use, None | Some(PublicKeyUse::Signature));
        // A secret that is empty is everybody's, and a short RSA key verifies nothing.
        let usable = match &jwk.algorithm {
            AlgorithmParameters::OctetKey(key) => !key.value.is_empty(),
            AlgorithmParameters::RSA(key) => base64_length(key.n.len()) >= RSA_BYTES,
            _ => true,
        };
        if !verifies || !usable {
            return None;
        }
        let key = DecodingKey::from_jwk(jwk).ok()?;
        let fits = |signature: &Signature| {
            let wanted = signature.algorithm();
            wanted.family() == key.family() && algorithm.is_none_or(|algorithm| algorithm == wanted)
        };
        signatures.iter().any(fits).then_some(Self {
            id: jwk.common.key_id.clone(),
            algorithm,
            key,
        })
    }

    fn may_have_signed(&self, algorithm: Algorithm, id: Option<&str>) -> bool {
        let named = match (&self.id, id) {
            (Some(own), Some(id)) => own == id,
            _ => true,
        };
        let fits = self.algorithm.is_none_or(|own| own == algorithm);
        named && fits && self.key.family() == algorithm.family()
    }
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
            header: rules.header,
            claim: rules.claim,
            plan_claim: rules.plan_claim,
            plans: rules.plans,
            validations: rules.signatures.iter().map(validation_of).collect(),
            invalid: rules.invalid,
            keys,
        }
    }

    /// The header that it looks into.
    pub const fn header(&self) -> &HeaderName {
        &self.header
    }

    /// Whether there are any keys yet: a set that was never fetched has none.
    pub fn has_keys(&self) -> bool {
        !self.keys.keys.load().is_empty()
    }

    /// Whether the request has a token that nothing can be said of, because there are no keys yet.
    pub fn is_undecided(&self, headers: &HeaderMap) -> bool {
        !self.has_keys() && self.token(headers).is_some()
    }

    /// The token of a request, if it has one: two are as bad as one that is not valid.
    pub(crate) fn token<'a>(&self, headers: &'a HeaderMap) -> Option<&'a [u8]> {
        let mut values = headers.get_all(&self.header).iter();
        let value = values.next()?.as_bytes().trim_ascii();
        if values.next().is_some() {
            return Some(b"");
        }
        match value.split_at_checked(7) {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"bearer ") => {
                Some(token.trim_ascii())
            }
            // Other schemes are for the API behind.
            _ if self.header == AUTHORIZATION => None,
            _ => Some(value).filter(|value| !value.is_empty()),
        }
    }

    /// Whether its tokens may say which plan a user has.
    pub const fn tell_plans(&self) -> bool {
        self.plan_claim.is_some()
    }

    /// The user that a token names, and what it says of their plan, if it is valid.
    pub(crate) fn user(&self, token: &[u8]) -> Option<(Box<str>, NamedPlan)> {
        if token.len() > MAX_TOKEN {
            return None;
        }
        let claims = self.verified(token)?;
        let id = match claims.get(&self.claim)? {
            // Control characters have no business in logs and headers, where IDs go.
            Value::String(id) if !id.is_empty() && !id.contains(char::is_control) => {
                id.as_str().into()
            }
            Value::Number(id) if !id.is_f64() => id.to_string().into(),
            _ => return None,
        };
        let claim = self.plan_claim.as_ref();
        let plan = claim.and_then(|claim| claims.get(claim));
        Some((
            id,
            plan.map_or(NamedPlan::Nothing, |plan| NamedPlan::by(plan, &self.plans)),
        ))
    }

    /// The claims of a token that one of the keys has signed, and that is in force.
    fn verified(&self, token: &[u8]) -> Option<Map<String, Value>> {
        let header = decode_header(token).ok()?;
        // What a header calls critical (RFC 7515, 4.1.11) is not understood here.
        if header.crit.is_some() {
            return None;
        }
        let mut validations = self.validations.iter();
        let validation = validations.find(|known| known.algorithms.contains(&header.alg))?;
        let id = header.kid.as_deref();
        let keys = self.keys.keys.load();
        // Each verification costs what a request costs, so a set that names its keys is not tried through.
        if id.is_none() && keys.iter().all(|key| key.id.is_some()) {
            return None;
        }
        let candidates = keys
            .iter()
            .filter(|key| key.may_have_signed(header.alg, id));
        let claims = candidates
            .take(MAX_TRIES)
            .find_map(|key| decode(token, &key.key, validation).ok())
            .map(|token| token.claims);
        let is_named = |id: &str| keys.iter().any(|key| key.id.as_deref() == Some(id));
        if claims.is_none() && id.is_some_and(|id| !is_named(id)) {
            self.keys.tell_missed();
        }
        claims
    }
}

#[cfg(test)]
mod tests;
