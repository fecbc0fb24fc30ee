use std::sync::LazyLock;
use std::time::SystemTime;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _,
};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;

use super::*;

/// Claims, and the users that they name.
mod claims;
/// Tokens without a signature, or with the signature of a wrong key.
mod forged;
/// Key sets.
mod sets;

const SECRET: &[u8] = b"a secret of 32 bytes, more or less";

/// A key that signs, and the content of a key file that verifies its signatures.
struct Signer {
    signature: Signature,
    key: EncodingKey,
    file: Vec<u8>,
}

impl Signer {
    fn hs256(secret: &[u8]) -> Self {
        Self {
            signature: Signature::Hs256,
            key: EncodingKey::from_secret(secret),
            file: secret.to_vec(),
        }
    }

    fn rs256() -> Self {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let private = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).unwrap();
        Self {
            signature: Signature::Rs256,
            key: EncodingKey::from_rsa_pem(&pem("PRIVATE KEY", private.as_ref())).unwrap(),
            file: public_pem(pair.public_key()),
        }
    }

    fn es256() -> Self {
        Self::ecdsa(Signature::Es256, &ECDSA_P256_SHA256_FIXED_SIGNING)
    }

    fn es384() -> Self {
        Self::ecdsa(Signature::Es384, &ECDSA_P384_SHA384_FIXED_SIGNING)
    }

    fn ecdsa(signature: Signature, signing: &'static EcdsaSigningAlgorithm) -> Self {
        let private = EcdsaKeyPair::generate_pkcs8(signing, &SystemRandom::new()).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(signing, private.as_ref()).unwrap();
        Self {
            signature,
            key: EncodingKey::from_ec_der(private.as_ref()),
            file: public_pem(pair.public_key()),
        }
    }

    fn eddsa() -> Self {
        let private = Ed25519KeyPair::generate_pkcs8v1(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(private.as_ref()).unwrap();
        Self {
            signature: Signature::EdDsa,
            key: EncodingKey::from_ed_der(private.as_ref()),
            file: public_pem(pair.public_key()),
        }
    }

    /// Returns the same key for another signature.
    fn for_signature(&self, signature: Signature) -> Self {
        Self {
            signature,
            key: self.key.clone(),
            file: self.file.clone(),
        }
    }

    /// Returns one key of each kind. All tests share these keys.
    fn all() -> &'static [Self; 5] {
        static ALL: LazyLock<[Signer; 5]> = LazyLock::new(|| {
            [
                Signer::hs256(SECRET),
                Signer::rs256(),
                Signer::es256(),
                Signer::eddsa(),
                Signer::es384(),
            ]
        });
        &ALL
    }

    fn keys(&self) -> TokenKeys {
        TokenKeys::from_file(&[self.signature], &self.file).unwrap()
    }

    /// Makes a token source with this key, for the header `Authorization`.
    fn tokens(&self) -> Tokens {
        Tokens::new(rules(self.signature), self.keys())
    }

    fn sign(&self, claims: &Value) -> String {
        self.sign_as(None, claims)
    }

    /// Signs a token with this key. The token names the key `kid`, if any.
    fn sign_as(&self, kid: Option<&str>, claims: &Value) -> String {
        let mut header = Header::new(self.signature.algorithm());
        header.kid = kid.map(str::to_owned);
        encode(&header, claims, &self.key).unwrap()
    }
}

fn rules(signature: Signature) -> TokenRules {
    TokenRules {
        header: AUTHORIZATION,
        signatures: vec![signature],
        issuer: None,
        audience: None,
        leeway: 60,
        claim: "sub".to_owned(),
        plan_claim: None,
        claims: Arc::default(),
        plans: ClientPlans::default(),
        invalid: InvalidToken::FallThrough,
    }
}

/// Makes a token source with [`SECRET`], and with the default rules as `change` modifies them.
fn by_secret(change: impl FnOnce(&mut TokenRules)) -> Tokens {
    let mut rules = rules(Signature::Hs256);
    change(&mut rules);
    Tokens::new(rules, Signer::hs256(SECRET).keys())
}

/// Returns the time this number of seconds from now, in the form of tokens.
fn seconds_from_now(seconds: i64) -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap().as_secs().cast_signed() + seconds
}

/// Returns the claims of user 42, valid for an hour.
fn of_42() -> Value {
    json!({ "sub": "42", "exp": seconds_from_now(3600) })
}

/// Returns the claims of user 42 with `more` claims, which replace claims of the same name.
fn of_42_and(more: Value) -> Value {
    let mut claims = of_42();
    let Value::Object(more) = more else {
        panic!("claims are an object")
    };
    claims.as_object_mut().unwrap().extend(more);
    claims
}

/// Returns the user that a token names.
fn user(tokens: &Tokens, token: &str) -> Option<String> {
    tokens.user(token.as_bytes()).map(|user| user.id.into())
}

fn is_42(tokens: &Tokens, token: &str) -> bool {
    let user = user(tokens, token);
    assert!(user.is_none() || user.as_deref() == Some("42"), "{user:?}");
    user.is_some()
}

fn base64(bytes: &[u8], alphabet_end: &[u8; 2], pad: bool) -> String {
    let letters = (b'A'..=b'Z').chain(b'a'..=b'z').chain(b'0'..=b'9');
    let letters: Vec<u8> = letters.chain(*alphabet_end).collect();
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let get = |i: usize| u32::from(three.get(i).copied().unwrap_or(0));
        let bits = get(0) << 16 | get(1) << 8 | get(2);
        for i in 0..4 {
            if i <= three.len() {
                text.push(letters[(bits >> (18 - 6 * i)) as usize % 64].into());
            } else if pad {
                text.push('=');
            }
        }
    }
    text
}

fn base64_url(bytes: &[u8]) -> String {
    base64(bytes, b"-_", false)
}

fn pem(label: &str, der: &[u8]) -> Vec<u8> {
    let body = base64(der, b"+/", true);
    let lines = body.as_bytes().chunks(64).map(String::from_utf8_lossy);
    let lines: Vec<_> = lines.collect();
    format!(
        "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
        lines.join("\n")
    )
    .into()
}

fn public_pem<'a>(key: &impl AsDer<PublicKeyX509Der<'a>>) -> Vec<u8> {
    pem("PUBLIC KEY", key.as_der().unwrap().as_ref())
}

fn headers(values: &[(HeaderName, &str)]) -> HeaderMap {
    let values = values.iter();
    values
        .map(|(name, value)| (name.clone(), value.parse().unwrap()))
        .fold(HeaderMap::new(), |mut headers, (name, value)| {
            headers.append(name, value);
            headers
        })
}

/// The signatures of RSA keys.
const RSA: [Signature; 4] = [
    Signature::Rs256,
    Signature::Rs384,
    Signature::Rs512,
    Signature::Ps256,
];

/// Whether both signatures need the same kind of key.
fn is_same_kind(one: Signature, other: Signature) -> bool {
    one == other || [one, other].iter().all(|signature| RSA.contains(signature))
}

#[test]
fn a_token_of_each_kind_names_its_user() {
    for (name, signature) in Signature::ALL {
        let mut signers = Signer::all().iter();
        let signer = signers.find(|signer| is_same_kind(signer.signature, signature));
        let signer = signer.unwrap().for_signature(signature);
        let token = signer.sign(&of_42());
        assert!(is_42(&signer.tokens(), &token), "{name}");
        let header = jsonwebtoken::decode_header(&token).unwrap();
        assert_eq!(format!("{:?}", header.alg), name);
    }
}

#[test]
fn a_key_of_the_wrong_kind_is_no_key() {
    for signer in Signer::all() {
        for (name, signature) in Signature::ALL {
            // A public key is refused as the secret of HS256, though its text could be a secret.
            let fits = is_same_kind(signature, signer.signature);
            let keys = TokenKeys::from_file(&[signature], &signer.file);
            assert_eq!(keys.is_ok(), fits, "{:?} for {name}", signer.signature);
        }
    }
    for empty in [&b""[..], b"\n", b" \r\n"] {
        assert!(TokenKeys::from_file(&[Signature::Hs256], empty).is_err());
    }
    assert!(TokenKeys::from_file(&[], SECRET).is_err());
    // A file with the marks of a private key is refused, even if its content is a public key.
    let rsa = String::from_utf8(Signer::all()[1].file.clone()).unwrap();
    let private = rsa.replace("PUBLIC KEY", "PRIVATE KEY");
    assert!(TokenKeys::from_file(&[Signature::Rs256], private.as_bytes()).is_err());
}

#[test]
fn the_end_of_a_line_is_no_part_of_a_secret() {
    let with_line_end = [SECRET, b"\r\n"].concat();
    let keys = TokenKeys::from_file(&[Signature::Hs256], &with_line_end).unwrap();
    let tokens = Tokens::new(rules(Signature::Hs256), keys);
    assert!(is_42(&tokens, &Signer::hs256(SECRET).sign(&of_42())));
}

#[test]
fn a_token_stands_behind_bearer_in_any_case() {
    let tokens = by_secret(|_| ());
    let token = |value: &str| {
        let headers = headers(&[(AUTHORIZATION, value)]);
        let token = tokens.token(&headers);
        token.map(|token| String::from_utf8(token.to_vec()).unwrap())
    };
    for bearer in [
        "Bearer a.b.c",
        "bearer a.b.c",
        "BEARER a.b.c",
        " Bearer   a.b.c\t",
    ] {
        assert_eq!(token(bearer).as_deref(), Some("a.b.c"), "{bearer:?}");
    }
    for other in [
        "Basic YTpi",
        "Bearera.b.c",
        "a.b.c",
        "Digest Bearer a.b.c",
        "Beare",
        "",
    ] {
        assert_eq!(token(other), None, "{other:?} is for the API behind");
    }
    assert_eq!(tokens.token(&HeaderMap::new()), None);
}

#[test]
fn in_another_header_a_token_needs_no_scheme() {
    let name = HeaderName::from_static("x-token");
    let tokens = by_secret(|rules| rules.header = name.clone());
    let token = |value: &str| {
        let headers = headers(&[(name.clone(), value)]);
        tokens.token(&headers).map(<[u8]>::to_vec)
    };
    for value in ["a.b.c", " a.b.c ", "Bearer a.b.c", "bearer a.b.c"] {
        assert_eq!(token(value).as_deref(), Some(&b"a.b.c"[..]), "{value:?}");
    }
    assert_eq!(token(" "), None);
    let elsewhere = headers(&[(AUTHORIZATION, "Bearer a.b.c")]);
    assert_eq!(tokens.token(&elsewhere), None, "only one header is read");
}

#[test]
fn two_tokens_are_as_bad_as_one_that_is_not_valid() {
    let tokens = by_secret(|_| ());
    let bearer = format!("Bearer {}", Signer::hs256(SECRET).sign(&of_42()));
    let one = headers(&[(AUTHORIZATION, &bearer)]);
    assert!(tokens.user(tokens.token(&one).unwrap()).is_some());
    for other in [&*bearer, "Basic YTpi", ""] {
        for both in [[&*bearer, other], [other, &*bearer]] {
            let headers = headers(&both.map(|value| (AUTHORIZATION, value)));
            let token = tokens.token(&headers).expect("it is not absent either");
            assert_eq!(tokens.user(token), None, "{both:?}");
        }
    }
}

#[test]
fn keys_are_never_shown() {
    let tokens = by_secret(|_| ());
    let shown = format!("{tokens:?} {:?}", tokens.keys);
    assert!(shown.contains("TokenKeys(1)"), "{shown}");
    assert!(
        !shown.contains("secret") && !shown.contains(&format!("{SECRET:?}")),
        "{shown}"
    );
}
