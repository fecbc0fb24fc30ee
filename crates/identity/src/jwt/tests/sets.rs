use super::*;

impl Signer {
    /// Returns its public key or its secret as a JWK with this ID.
    fn jwk(&self, kid: Option<&str>) -> Value {
        let jwk = Jwk::from_encoding_key(&self.key, self.signature.algorithm()).unwrap();
        let mut jwk = serde_json::to_value(jwk).unwrap();
        if let Some(kid) = kid {
            jwk["kid"] = kid.into();
        }
        jwk
    }
}

/// Makes a token source with the keys of this set.
fn by_set(signature: Signature, keys: &[Value]) -> Tokens {
    let tokens = Tokens::new(rules(signature), TokenKeys::default());
    replace(&tokens, signature, keys).unwrap();
    tokens
}

fn replace(tokens: &Tokens, signature: Signature, keys: &[Value]) -> Result<(), InvalidKey> {
    let set = json!({ "keys": keys }).to_string();
    tokens.keys.replace(&[signature], set.as_bytes()).map(drop)
}

fn without(jwk: &Value, member: &str) -> Value {
    let mut jwk = jwk.clone();
    jwk.as_object_mut().unwrap().remove(member);
    jwk
}

fn with(jwk: &Value, member: &str, value: impl Into<Value>) -> Value {
    let mut jwk = jwk.clone();
    jwk[member] = value.into();
    jwk
}

#[test]
fn a_key_of_each_kind_may_come_in_a_set() {
    for signer in Signer::all() {
        for jwk in [
            signer.jwk(Some("a")),
            without(&signer.jwk(Some("a")), "alg"),
        ] {
            let tokens = by_set(signer.signature, &[jwk]);
            let token = signer.sign_as(Some("a"), &of_42());
            assert!(is_42(&tokens, &token), "{:?}", signer.signature);
        }
    }
}

#[test]
fn without_keys_nobody_is_named() {
    let signer = &Signer::all()[3];
    let tokens = Tokens::new(rules(signer.signature), TokenKeys::default());
    assert!(!is_42(&tokens, &signer.sign(&of_42())));
}

#[test]
fn a_token_that_names_its_key_is_verified_by_no_other() {
    let (a, b) = (Signer::eddsa(), Signer::eddsa());
    let tokens = by_set(Signature::EdDsa, &[a.jwk(Some("a")), b.jwk(Some("b"))]);
    assert!(is_42(&tokens, &a.sign_as(Some("a"), &of_42())));
    assert!(is_42(&tokens, &b.sign_as(Some("b"), &of_42())));
    for kid in ["b", "c", "A", "", "a "] {
        assert!(!is_42(&tokens, &a.sign_as(Some(kid), &of_42())), "{kid:?}");
    }
}

/// If all keys of a set have names, a token must name its key. One verification costs about the time of a whole request, so not all keys
/// are tried.
#[test]
fn a_token_names_its_key_where_every_key_has_a_name() {
    let (a, b) = (Signer::eddsa(), Signer::eddsa());
    let named = [a.jwk(Some("a")), b.jwk(Some("b"))];
    for keys in [&named[..1], &named] {
        let tokens = by_set(Signature::EdDsa, keys);
        assert!(is_42(&tokens, &a.sign_as(Some("a"), &of_42())));
        assert!(!is_42(&tokens, &a.sign(&of_42())));
    }
    let mixed = by_set(Signature::EdDsa, &[a.jwk(Some("a")), b.jwk(None)]);
    for signer in [&a, &b] {
        assert!(is_42(&mixed, &signer.sign(&of_42())));
    }
}

#[test]
fn a_token_that_names_no_key_is_tried_with_a_few() {
    let signers: Vec<Signer> = (0..=MAX_TRIES).map(|_| Signer::eddsa()).collect();
    let jwks: Vec<Value> = signers.iter().map(|signer| signer.jwk(None)).collect();
    let tokens = by_set(Signature::EdDsa, &jwks);
    for (index, signer) in signers.iter().enumerate() {
        let tried = index < MAX_TRIES;
        assert_eq!(is_42(&tokens, &signer.sign(&of_42())), tried, "{index}");
        let named = signer.sign_as(Some("any"), &of_42());
        assert_eq!(
            is_42(&tokens, &named),
            tried,
            "a key without a name may be the one: {index}"
        );
    }
    let jwks: Vec<Value> = (0..signers.len())
        .map(|i| signers[i].jwk(Some(&i.to_string())))
        .collect();
    let tokens = by_set(Signature::EdDsa, &jwks);
    for (index, signer) in signers.iter().enumerate() {
        let token = signer.sign_as(Some(&index.to_string()), &of_42());
        assert!(
            is_42(&tokens, &token),
            "however many have other names: {index}"
        );
    }
}

#[test]
fn keys_of_other_algorithms_are_left_out() {
    for signer in Signer::all() {
        let all: Vec<Value> = Signer::all()
            .iter()
            .map(|signer| signer.jwk(None))
            .collect();
        let tokens = by_set(signer.signature, &all);
        assert_eq!(format!("{:?}", tokens.keys), "TokenKeys(1)");
        let unnamed: Vec<Value> = all.iter().map(|jwk| without(jwk, "alg")).collect();
        let tokens_of_kind = by_set(signer.signature, &unnamed);
        assert_eq!(
            format!("{:?}", tokens_of_kind.keys),
            "TokenKeys(1)",
            "by the kind of key"
        );
        for other in Signer::all() {
            let good = other.signature == signer.signature;
            assert_eq!(is_42(&tokens, &other.sign(&of_42())), good);
        }
    }
    let signer = &Signer::all()[1];
    let jwk = signer.jwk(None);
    for algorithm in [
        "RS384", "RS512", "PS256", "RSA-OAEP", "ES256", "HS256", "XY999",
    ] {
        let tokens = Tokens::new(rules(Signature::Rs256), TokenKeys::default());
        let result = replace(&tokens, Signature::Rs256, &[with(&jwk, "alg", algorithm)]);
        assert_eq!(result, Err(InvalidKey), "{algorithm}");
    }
}

#[test]
fn keys_that_are_not_understood_do_not_spoil_the_others() {
    let signer = Signer::all()[2].jwk(Some("a"));
    let strange = [
        json!({ "kty": "AKP", "alg": "ML-DSA-44", "kid": "p", "pub": "AAAA" }),
        json!({ "kty": "EC", "crv": "secp256k1", "kid": "k", "x": "AAAA", "y": "AAAA" }),
        json!({ "kty": "OKP", "crv": "X25519", "kid": "x", "x": "AAAA" }),
        json!({ "kty": "OKP", "crv": "Ed448", "x": "AAAA" }),
        json!({ "kty": "RSA", "n": "!", "e": "!" }),
        json!({ "kty": "RSA" }),
        json!({ "kty": "EC", "crv": "P-256", "alg": "ES256", "x": "!", "y": "!" }),
    ];
    for strange in &strange {
        for keys in [
            [strange.clone(), signer.clone()],
            [signer.clone(), strange.clone()],
        ] {
            let tokens = by_set(Signature::Es256, &keys);
            let token = Signer::all()[2].sign_as(Some("a"), &of_42());
            assert!(is_42(&tokens, &token), "{strange}");
        }
    }
}

#[test]
fn a_key_for_something_else_verifies_nothing() {
    for signer in Signer::all() {
        let jwk = signer.jwk(None);
        let tokens = Tokens::new(rules(signer.signature), TokenKeys::default());
        let result = replace(&tokens, signer.signature, &[with(&jwk, "use", "enc")]);
        assert_eq!(result, Err(InvalidKey), "{:?}", signer.signature);
        let tokens = by_set(signer.signature, &[with(&jwk, "use", "sig")]);
        assert!(
            is_42(&tokens, &signer.sign(&of_42())),
            "{:?}",
            signer.signature
        );
    }
}

#[test]
fn an_empty_secret_is_no_key() {
    let empty = json!({ "kty": "oct", "alg": "HS256", "k": "" });
    let tokens = Tokens::new(rules(Signature::Hs256), TokenKeys::default());
    assert_eq!(
        replace(&tokens, Signature::Hs256, &[empty]),
        Err(InvalidKey)
    );
    assert!(!is_42(&tokens, &Signer::hs256(b"").sign(&of_42())));
}

#[test]
fn a_set_that_holds_no_key_leaves_the_old_ones() {
    let signer = &Signer::all()[2];
    let tokens = by_set(signer.signature, &[signer.jwk(Some("a"))]);
    let rsa = json!({ "keys": [Signer::all()[1].jwk(Some("a"))] }).to_string();
    for garbage in [
        "",
        "{",
        "null",
        "[]",
        "{}",
        "{\"keys\":[]}",
        "{\"keys\":{}}",
        "<html>",
        &*rsa,
    ] {
        let result = tokens.keys.replace(&[signer.signature], garbage.as_bytes());
        assert_eq!(result, Err(InvalidKey), "{garbage}");
        assert!(
            is_42(&tokens, &signer.sign_as(Some("a"), &of_42())),
            "{garbage}"
        );
    }
    assert_eq!(
        tokens.keys.replace(&[signer.signature], b"\xff"),
        Err(InvalidKey)
    );
}

#[test]
fn a_rotation_is_seen_by_all_clones_and_the_old_key_is_gone() {
    let (old, new) = (Signer::es256(), Signer::es256());
    let tokens = by_set(Signature::Es256, &[old.jwk(Some("old"))]);
    let clone = tokens.clone();
    let (by_old, by_new) = (
        old.sign_as(Some("old"), &of_42()),
        new.sign_as(Some("new"), &of_42()),
    );
    let taken = || [&tokens, &clone].map(|tokens| (is_42(tokens, &by_old), is_42(tokens, &by_new)));
    assert_eq!(taken(), [(true, false); 2]);
    replace(
        &tokens,
        Signature::Es256,
        &[old.jwk(Some("old")), new.jwk(Some("new"))],
    )
    .unwrap();
    assert_eq!(taken(), [(true, true); 2]);
    replace(&clone, Signature::Es256, &[new.jwk(Some("new"))]).unwrap();
    assert_eq!(taken(), [(false, true); 2]);
}

#[test]
fn an_rsa_key_that_is_too_short_leaves_the_keys_that_were_known() {
    let signer = &Signer::all()[1];
    assert_eq!(signer.signature, Signature::Rs256);
    let tokens = by_set(signer.signature, &[signer.jwk(Some("a"))]);
    let short = with(&signer.jwk(Some("b")), "n", "AQAB");
    assert!(replace(&tokens, signer.signature, &[short]).is_err());
    assert!(is_42(&tokens, &signer.sign_as(Some("a"), &of_42())));
}

/// If a key does not name its algorithm, it has the first algorithm of the configuration that fits the key.
#[test]
fn a_key_of_a_set_verifies_one_algorithm() {
    let rsa = &Signer::all()[1];
    let taken = |signatures: &[Signature], alg: Option<&str>| {
        let mut jwk = without(&rsa.jwk(Some("a")), "alg");
        if let Some(alg) = alg {
            jwk["alg"] = alg.into();
        }
        let mut rules = rules(Signature::Rs256);
        rules.signatures = signatures.to_vec();
        let tokens = Tokens::new(rules, TokenKeys::default());
        let set = json!({ "keys": [jwk] }).to_string();
        tokens.keys.replace(signatures, set.as_bytes()).ok()?;
        let mut taken = RSA.into_iter().filter(|signature| {
            let token = rsa.for_signature(*signature).sign_as(Some("a"), &of_42());
            is_42(&tokens, &token)
        });
        let first = taken.next();
        assert_eq!(taken.next(), None, "{signatures:?} {alg:?}");
        first
    };
    use Signature::{Es256, Ps256, Rs256, Rs384, Rs512};
    assert_eq!(taken(&[Es256, Ps256, Rs256], None), Some(Ps256));
    assert_eq!(taken(&[Rs512, Rs384], None), Some(Rs512));
    assert_eq!(taken(&[Ps256, Rs256], Some("RS256")), Some(Rs256));
    assert_eq!(taken(&[Rs256, Rs384], Some("RS384")), Some(Rs384));
    assert_eq!(taken(&[Rs256, Rs384], Some("RS512")), None);
    assert_eq!(taken(&[Es256], None), None);
}

#[test]
fn a_curve_is_for_its_own_algorithm() {
    let both = [Signature::Es256, Signature::Es384];
    for signer in [&Signer::all()[2], &Signer::all()[4]] {
        let jwk = signer.jwk(None);
        for jwk in [jwk.clone(), without(&jwk, "alg")] {
            let mut rules = rules(Signature::Es256);
            rules.signatures = both.to_vec();
            let tokens = Tokens::new(rules, TokenKeys::default());
            let set = json!({ "keys": [jwk] }).to_string();
            assert_eq!(tokens.keys.replace(&both, set.as_bytes()), Ok(1));
            assert!(
                is_42(&tokens, &signer.sign(&of_42())),
                "{:?}",
                signer.signature
            );
        }
        for wrong in both.iter().filter(|wrong| **wrong != signer.signature) {
            let tokens = Tokens::new(rules(*wrong), TokenKeys::default());
            for jwk in [
                without(&jwk, "alg"),
                with(&jwk, "alg", "ES256"),
                with(&jwk, "alg", "ES384"),
            ] {
                assert_eq!(
                    replace(&tokens, *wrong, &[jwk]),
                    Err(InvalidKey),
                    "{wrong:?}"
                );
            }
        }
    }
}
