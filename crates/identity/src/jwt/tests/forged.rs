use super::*;

/// Makes a token from these parts, without a check of the signature.
fn raw(header: &Value, claims: &Value, signature: &[u8]) -> String {
    let parts = [
        header.to_string().into_bytes(),
        claims.to_string().into_bytes(),
        signature.into(),
    ];
    parts.map(|part| base64_url(&part)).join(".")
}

#[test]
fn a_token_of_another_key_is_none() {
    for (other, signer) in [
        Signer::hs256(b"another secret"),
        Signer::rs256(),
        Signer::es256(),
        Signer::eddsa(),
        Signer::es384(),
    ]
    .iter()
    .zip(Signer::all())
    {
        let token = other.sign(&of_42());
        assert!(is_42(&other.tokens(), &token));
        assert!(!is_42(&signer.tokens(), &token), "{:?}", signer.signature);
    }
}

#[test]
fn a_token_of_another_algorithm_is_none() {
    for signer in Signer::all() {
        for other in Signer::all() {
            let good = other.signature == signer.signature;
            let token = other.sign(&of_42());
            let which = (signer.signature, other.signature);
            assert_eq!(is_42(&signer.tokens(), &token), good, "{which:?}");
        }
    }
    let header = Header::new(Algorithm::HS512);
    let token = encode(&header, &of_42(), &EncodingKey::from_secret(SECRET)).unwrap();
    assert!(!is_42(&by_secret(|_| ()), &token), "of the same key, too");
}

/// An RSA key can make four kinds of signatures. The configuration decides which kind counts, not the token.
#[test]
fn a_token_of_another_algorithm_of_the_same_key_is_none() {
    let rsa = &Signer::all()[1];
    for own in RSA {
        let tokens = rsa.for_signature(own).tokens();
        for other in RSA {
            let token = rsa.for_signature(other).sign(&of_42());
            assert_eq!(is_42(&tokens, &token), own == other, "{own:?} {other:?}");
        }
    }
    // Other signatures are refused even if `algorithms` lists several, because the only key of the file is for the first.
    let mut rules = rules(Signature::Ps256);
    rules.signatures.extend(RSA);
    let keys = TokenKeys::from_file(&rules.signatures, &rsa.file).unwrap();
    let tokens = Tokens::new(rules, keys);
    for other in RSA {
        let token = rsa.for_signature(other).sign(&of_42());
        assert_eq!(
            is_42(&tokens, &token),
            other == Signature::Ps256,
            "{other:?}"
        );
    }
}

#[test]
fn a_token_that_nobody_signed_is_none() {
    for signer in Signer::all() {
        let tokens = signer.tokens();
        for algorithm in ["none", "None", "NONE", "nOnE", ""] {
            let header = json!({ "alg": algorithm, "typ": "JWT" });
            let token = raw(&header, &of_42(), b"");
            assert!(!is_42(&tokens, &token), "{algorithm}");
            assert!(!is_42(&tokens, token.trim_end_matches('.')), "{algorithm}");
        }
        let (signed, _) = raw(&json!({ "typ": "JWT" }), &of_42(), b"")
            .rsplit_once('.')
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .unwrap();
        assert!(
            !is_42(&tokens, &format!("{signed}.")),
            "no algorithm at all"
        );
        let good = signer.sign(&of_42());
        let (signed, _) = good.rsplit_once('.').unwrap();
        assert!(
            !is_42(&tokens, &format!("{signed}.")),
            "{:?}",
            signer.signature
        );
        assert!(!is_42(&tokens, signed), "{:?}", signer.signature);
    }
}

#[test]
fn a_public_key_never_passes_for_a_secret() {
    for signer in &Signer::all()[1..] {
        let public = &signer.file;
        for secret in [&public[..], public.trim_ascii_end(), public.trim_ascii()] {
            let forged = Signer::hs256(secret).sign(&of_42());
            assert!(!is_42(&signer.tokens(), &forged), "{:?}", signer.signature);
            // The forged token is refused even if both algorithms are allowed by mistake.
            let mut both = rules(signer.signature);
            both.signatures.push(Signature::Hs256);
            let keys = TokenKeys::from_file(&both.signatures, public).unwrap();
            assert!(
                !is_42(&Tokens::new(both, keys), &forged),
                "{:?}",
                signer.signature
            );
        }
    }
}

#[test]
fn a_token_that_was_touched_is_none() {
    for signer in Signer::all() {
        let tokens = signer.tokens();
        let token = signer.sign(&of_42());
        let other = signer.sign(&of_42_and(json!({ "sub": "43" })));
        let parts = |token: &str| token.split('.').map(str::to_owned).collect::<Vec<_>>();
        let (ours, theirs) = (parts(&token), parts(&other));
        let mixed = [&ours[0], &theirs[1], &ours[2]]
            .map(|part| &**part)
            .join(".");
        assert_eq!(user(&tokens, &mixed), None, "{:?}", signer.signature);
        let mixed = [&ours[0], &ours[1], &theirs[2]]
            .map(|part| &**part)
            .join(".");
        assert_eq!(user(&tokens, &mixed), None, "{:?}", signer.signature);
        for touched in [
            format!("{token}."),
            format!(".{token}"),
            format!("{token}A"),
            token.replacen('.', "..", 1),
        ] {
            assert!(!is_42(&tokens, &touched), "{touched}");
        }
    }
}

#[test]
fn what_is_no_token_names_nobody() {
    let tokens = by_secret(|_| ());
    for nothing in ["", ".", "..", "...", "a.b.c", "e30.e30.e30", "null", "42"] {
        assert_eq!(user(&tokens, nothing), None, "{nothing}");
    }
    assert_eq!(tokens.user(b"\xff.\xff.\xff"), None);
    assert_eq!(tokens.user(&[0; 100]), None);
    for claims in [json!("42"), json!(["sub", "42"]), json!(42), json!(null)] {
        let token = Signer::hs256(SECRET).sign(&claims);
        assert_eq!(user(&tokens, &token), None, "{claims}");
    }
}

#[test]
fn a_key_that_a_token_brings_along_is_not_used() {
    let thief = Signer::rs256();
    let mut header = Header::new(Algorithm::RS256);
    header.jwk = Some(Jwk::from_encoding_key(&thief.key, Algorithm::RS256).unwrap());
    header.jku = Some("https://thief.example/jwks.json".to_owned());
    header.kid = Some("../../dev/null".to_owned());
    let token = encode(&header, &of_42(), &thief.key).unwrap();
    assert!(is_42(&thief.tokens(), &token));
    assert!(!is_42(&Signer::all()[1].tokens(), &token));
}

#[test]
fn a_token_that_asks_for_what_is_not_known_here_is_none() {
    let tokens = by_secret(|_| ());
    for critical in [vec!["b64".to_owned()], vec!["exp".to_owned()], vec![]] {
        let mut header = Header::new(Algorithm::HS256);
        header.crit = Some(critical.clone());
        let token = encode(&header, &of_42(), &EncodingKey::from_secret(SECRET)).unwrap();
        assert!(!is_42(&tokens, &token), "{critical:?} (RFC 7515, 4.1.11)");
    }
}

/// Makes a valid token with exactly this length in bytes.
fn of_length(length: usize) -> String {
    let signer = Signer::hs256(SECRET);
    // Base64 cannot have every length. But header and claims are encoded separately, so their lengths together reach each length.
    for kid in ["k", "kk", "kkk", "kkkk"] {
        let with =
            |pad: usize| signer.sign_as(Some(kid), &of_42_and(json!({ "pad": "x".repeat(pad) })));
        let missing = length - with(0).len();
        for pad in (missing / 4 * 3).saturating_sub(4)..missing / 4 * 3 + 4 {
            let token = with(pad);
            if token.len() == length {
                return token;
            }
        }
    }
    panic!("no token has {length} bytes")
}

#[test]
fn a_token_of_more_than_8_kib_is_none_however_good() {
    let tokens = by_secret(|_| ());
    assert!(is_42(&tokens, &of_length(1000)));
    assert!(is_42(&tokens, &of_length(8 * 1024 - 1)));
    assert!(is_42(&tokens, &of_length(8 * 1024)));
    assert!(!is_42(&tokens, &of_length(8 * 1024 + 1)));
    assert!(!is_42(&tokens, &of_length(1024 * 1024)));
}
