//! The signatures that tokens may have.

use jsonwebtoken::{Algorithm, DecodingKey};

/// The signature of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signature {
    /// HMAC with SHA-256 and a shared secret.
    Hs256,
    /// RSA (PKCS #1 v1.5) with SHA-256.
    Rs256,
    /// RSA (PKCS #1 v1.5) with SHA-384.
    Rs384,
    /// RSA (PKCS #1 v1.5) with SHA-512.
    Rs512,
    /// RSA (PSS) with SHA-256.
    Ps256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

impl Signature {
    /// All signatures with their names in tokens and in YAML.
    pub const ALL: [(&'static str, Self); 8] = [
        ("HS256", Self::Hs256),
        ("RS256", Self::Rs256),
        ("RS384", Self::Rs384),
        ("RS512", Self::Rs512),
        ("PS256", Self::Ps256),
        ("ES256", Self::Es256),
        ("ES384", Self::Es384),
        ("EdDSA", Self::EdDsa),
    ];

    /// Whether this signature is made and verified with the same key, a shared secret.
    pub const fn is_by_secret(self) -> bool {
        matches!(self, Self::Hs256)
    }

    pub(super) const fn algorithm(self) -> Algorithm {
        match self {
            Self::Hs256 => Algorithm::HS256,
            Self::Rs256 => Algorithm::RS256,
            Self::Rs384 => Algorithm::RS384,
            Self::Rs512 => Algorithm::RS512,
            Self::Ps256 => Algorithm::PS256,
            Self::Es256 => Algorithm::ES256,
            Self::Es384 => Algorithm::ES384,
            Self::EdDsa => Algorithm::EdDSA,
        }
    }

    /// Whether this key can verify this signature. The length of a public key's point identifies its elliptic curve.
    pub(super) fn fits(self, key: &DecodingKey) -> bool {
        let length = key.try_get_as_bytes().map_or(0, <[u8]>::len);
        let is_right = match self {
            Self::Es256 => length == 1 + 2 * 32,
            Self::Es384 => length == 1 + 2 * 48,
            Self::EdDsa => length == 32,
            Self::Hs256 | Self::Rs256 | Self::Rs384 | Self::Rs512 | Self::Ps256 => true,
        };
        is_right && key.family() == self.algorithm().family()
    }
}
