//! The keys that tokens are verified with: read from a file, or from a JWK set.

use std::fmt;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::Value;

use super::Signature;

/// The smallest accepted RSA key, in bytes: 2,048 bits (RFC 7518, 3.3).
const RSA_BYTES: usize = 256;

/// The keys that tokens are verified with. Clones are cheap, and share the keys: after [`replace`](Self::replace) all clones have the new
/// keys.
#[derive(Clone, Default)]
pub struct TokenKeys {
    keys: Arc<ArcSwap<Vec<Key>>>,
    /// The function that is called for a token whose key is missing.
    missed: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// One key, which verifies one kind of signature. If a key verified two kinds, an attacker could use the key for the wrong kind and forge
/// tokens (RFC 8725, 3.1).
pub(super) struct Key {
    pub(super) id: Option<String>,
    signature: Signature,
    pub(super) key: DecodingKey,
}

/// The error for a file or a key set without a usable key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no key for these algorithms in it")]
pub struct InvalidKey;

impl fmt::Debug for TokenKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenKeys({})", self.keys.load().len())
    }
}

impl TokenKeys {
    /// Makes a value without keys. No token is valid until [`replace`](Self::replace) adds keys.
    ///
    /// `missed` is called whenever a token with an accepted algorithm names a missing key. The call is part of the request, so `missed`
    /// must not block.
    pub fn awaited(missed: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            keys: Arc::default(),
            missed: Some(Arc::new(missed)),
        }
    }

    /// Reads the only key of a file. The key is for the first of `signatures`: a secret for HS256, otherwise a public key in PEM.
    ///
    /// # Errors
    ///
    /// The file holds no key for these signatures.
    pub fn from_file(signatures: &[Signature], content: &[u8]) -> Result<Self, InvalidKey> {
        let signature = *signatures.first().ok_or(InvalidKey)?;
        let key = match signature {
            Signature::Hs256 => match content.trim_ascii_end() {
                // A public key is not secret, so every client could sign tokens with it.
                [] | [b'-', b'-', b'-', b'-', b'-', ..] => return Err(InvalidKey),
                secret => Ok(DecodingKey::from_secret(secret)),
            },
            Signature::Rs256 | Signature::Rs384 | Signature::Rs512 | Signature::Ps256 => {
                if is_private(content) || pem_length(content) < RSA_BYTES {
                    return Err(InvalidKey);
                }
                DecodingKey::from_rsa_pem(content)
            }
            Signature::Es256 | Signature::Es384 => DecodingKey::from_ec_pem(content),
            Signature::EdDsa => DecodingKey::from_ed_pem(content),
        };
        let key = key.ok().filter(|key| signature.fits(key));
        let key = Key {
            id: None,
            signature,
            key: key.ok_or(InvalidKey)?,
        };
        Ok(Self {
            keys: Arc::new(ArcSwap::from_pointee(vec![key])),
            missed: None,
        })
    }

    /// Replaces all keys by the keys of a JWK set (RFC 7517), and returns their number. A key that names an algorithm (`alg`) verifies this
    /// algorithm. Any other key verifies the first of `signatures` that fits the key.
    ///
    /// # Errors
    ///
    /// The text is not a JWK set, or holds no key for these signatures. After an error, the old keys stay in use.
    pub fn replace(&self, signatures: &[Signature], set: &[u8]) -> Result<usize, InvalidKey> {
        let mut set: Value = serde_json::from_slice(set).map_err(|_| InvalidKey)?;
        let Some(Value::Array(jwks)) = set.get_mut("keys").map(Value::take) else {
            return Err(InvalidKey);
        };
        // Keys of unsupported kinds, which a set may contain (RFC 7517, 5), are left out.
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

    pub(super) fn load(&self) -> Guard<Arc<Vec<Key>>> {
        self.keys.load()
    }

    /// Reports a token that names a missing key.
    pub(super) fn tell_missed(&self) {
        if let Some(missed) = &self.missed {
            missed();
        }
    }
}

/// Whether a file holds a private key, which a gateway must not have.
fn is_private(pem: &[u8]) -> bool {
    pem.windows(11).any(|word| word == b"PRIVATE KEY")
}

/// Returns the approximate length of a PEM file's content in bytes. Apart from the modulus, an RSA key's encoding has less than 100 bytes.
/// So the length shows whether the modulus has 2,048 bits.
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
        let public_use = &jwk.common.public_key_use;
        let verifies = matches!(public_use, None | Some(PublicKeyUse::Signature));
        // Anyone can guess an empty secret, and a short RSA key can be broken.
        let usable = match &jwk.algorithm {
            AlgorithmParameters::OctetKey(key) => !key.value.is_empty(),
            AlgorithmParameters::RSA(key) => base64_length(key.n.len()) >= RSA_BYTES,
            _ => true,
        };
        if !verifies || !usable {
            return None;
        }
        let key = DecodingKey::from_jwk(jwk).ok()?;
        let named = jwk.common.key_algorithm;
        let mut signatures = signatures.iter().copied();
        let signature = signatures.find(|signature| {
            named.is_none_or(|named| named == KeyAlgorithm::from(signature.algorithm()))
                && signature.fits(&key)
        })?;
        Some(Self {
            id: jwk.common.key_id.clone(),
            signature,
            key,
        })
    }

    /// Whether this key may have signed a token with this algorithm and key ID.
    pub(super) fn may_have_signed(&self, algorithm: Algorithm, id: Option<&str>) -> bool {
        let named = match (&self.id, id) {
            (Some(own), Some(id)) => own == id,
            _ => true,
        };
        named && self.signature.algorithm() == algorithm
    }
}
