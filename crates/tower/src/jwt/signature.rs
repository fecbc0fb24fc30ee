//! The signatures that tokens may have.

use jsonwebtoken::Algorithm;

/// How a token is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signature {
    /// HMAC with SHA-256 and a shared secret.
    Hs256,
    /// RSA (PKCS #1 v1.5) with SHA-256.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// Ed25519.
    EdDsa,
}

impl Signature {
    /// All of them with their names in tokens and in YAML.
    pub const ALL: [(&'static str, Self); 4] = [
        ("HS256", Self::Hs256),
        ("RS256", Self::Rs256),
        ("ES256", Self::Es256),
        ("EdDSA", Self::EdDsa),
    ];

    pub(super) const fn algorithm(self) -> Algorithm {
        match self {
            Self::Hs256 => Algorithm::HS256,
            Self::Rs256 => Algorithm::RS256,
            Self::Es256 => Algorithm::ES256,
            Self::EdDsa => Algorithm::EdDSA,
        }
    }
}
