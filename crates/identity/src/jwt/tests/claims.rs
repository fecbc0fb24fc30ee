use super::*;
use crate::api_keys::{ApiKeys, UnknownKey};
use crate::{ClientSource, Clients, Credentials};
use tidegate_net::peer::Peer;

/// Whether a token with these claims, signed with [`SECRET`], names user 42.
fn taken(tokens: &Tokens, claims: Value) -> bool {
    is_42(tokens, &Signer::hs256(SECRET).sign(&claims))
}

/// Returns the user that these claims name.
fn named(claims: Value) -> Option<String> {
    user(&by_secret(|_| ()), &Signer::hs256(SECRET).sign(&claims))
}

#[test]
fn a_token_of_another_issuer_is_none() {
    let tokens = by_secret(|rules| rules.issuer = Some("https://id.example".to_owned()));
    let by = |issuer: Value| taken(&tokens, of_42_and(json!({ "iss": issuer })));
    assert!(by(json!("https://id.example")));
    for other in [
        json!("https://id.example/"),
        json!("https://ID.example"),
        json!(""),
        json!(null),
        json!(1),
    ] {
        assert!(!by(other.clone()), "{other}");
    }
    assert!(!by(json!(["https://other.example"])));
    assert!(!taken(&tokens, of_42()), "it must name one");
    assert!(taken(
        &by_secret(|_| ()),
        of_42_and(json!({ "iss": "any" }))
    ));
}

#[test]
fn a_token_for_another_audience_is_none() {
    let tokens = by_secret(|rules| rules.audience = Some("api".to_owned()));
    let to = |audience: Value| taken(&tokens, of_42_and(json!({ "aud": audience })));
    assert!(to(json!("api")));
    assert!(to(json!(["api"])));
    assert!(to(json!(["web", "api", "mail"])));
    for other in [
        json!("web"),
        json!(["web", "mail"]),
        json!([]),
        json!(""),
        json!(null),
        json!({ "api": 1 }),
    ] {
        assert!(!to(other.clone()), "{other}");
    }
    assert!(!taken(&tokens, of_42()), "it must name one");
    assert!(
        taken(&by_secret(|_| ()), of_42_and(json!({ "aud": "any" }))),
        "if none is asked for"
    );
}

#[test]
fn a_token_is_good_until_it_expires_and_the_leeway_after() {
    let tokens = by_secret(|rules| rules.leeway = 60);
    let strict = by_secret(|rules| rules.leeway = 0);
    let ends = |tokens, seconds| {
        taken(
            tokens,
            of_42_and(json!({ "exp": seconds_from_now(seconds) })),
        )
    };
    assert!(ends(&tokens, 30) && ends(&strict, 30));
    assert!(ends(&tokens, -30));
    assert!(!ends(&strict, -30));
    assert!(!ends(&tokens, -90));
    assert!(!ends(&tokens, -86_400));
}

#[test]
fn a_token_that_never_expires_is_none() {
    let tokens = by_secret(|_| ());
    assert!(!taken(&tokens, json!({ "sub": "42" })));
    let tomorrow = seconds_from_now(86_400);
    assert!(taken(&tokens, of_42_and(json!({ "exp": tomorrow }))));
    for never in [
        json!(null),
        json!(tomorrow.to_string()),
        json!(-1),
        json!("never"),
        json!([tomorrow]),
        json!(true),
        json!(0),
    ] {
        assert!(
            !taken(&tokens, of_42_and(json!({ "exp": never }))),
            "{never}"
        );
    }
}

#[test]
fn a_token_is_none_before_its_time() {
    let tokens = by_secret(|rules| rules.leeway = 60);
    let from = |seconds| {
        taken(
            &tokens,
            of_42_and(json!({ "nbf": seconds_from_now(seconds) })),
        )
    };
    assert!(from(-30));
    assert!(from(30), "within the leeway");
    assert!(!from(90));
    assert!(!from(86_400));
    assert!(!taken(&tokens, of_42_and(json!({ "nbf": "tomorrow" }))));
}

#[test]
fn the_user_is_in_the_claim_that_is_configured() {
    let tokens = by_secret(|rules| rules.claim = "account".to_owned());
    let named = |claims| user(&tokens, &Signer::hs256(SECRET).sign(&claims));
    assert_eq!(
        named(of_42_and(json!({ "account": "7" }))).as_deref(),
        Some("7")
    );
    assert_eq!(named(of_42()), None, "and in no other");
    assert_eq!(
        named(of_42_and(
            json!({ "Account": "7", "a": { "account": "7" } })
        )),
        None
    );
}

#[test]
fn a_user_is_text_or_a_whole_number() {
    let named = |id: Value| named(of_42_and(json!({ "sub": id })));
    assert_eq!(
        named(json!("alice@example.com")).as_deref(),
        Some("alice@example.com")
    );
    assert_eq!(named(json!("Zoë 🦀:*{a}")).as_deref(), Some("Zoë 🦀:*{a}"));
    // Numbers are tested in another claim, because some libraries refuse a `sub` that is no text.
    let tokens = by_secret(|rules| rules.claim = "id".to_owned());
    let by_id = |id: Value| {
        let claims = of_42_and(json!({ "id": id }));
        user(&tokens, &Signer::hs256(SECRET).sign(&claims))
    };
    for (id, name) in [
        (json!(42), "42"),
        (json!(0), "0"),
        (json!(-7), "-7"),
        (json!(u64::MAX), "18446744073709551615"),
    ] {
        assert_eq!(by_id(id).as_deref(), Some(name));
    }
    for nobody in [
        json!(4.2),
        json!(1e30),
        json!({}),
        json!({ "id": "42" }),
        json!([]),
        json!(["42"]),
        json!(null),
        json!(true),
        json!(""),
    ] {
        assert_eq!(by_id(nobody.clone()), None, "{nobody}");
        assert_eq!(named(nobody.clone()), None, "{nobody}");
    }
}

#[test]
fn a_user_with_control_characters_is_nobody() {
    for id in [
        "42\n",
        "\n",
        "4\r\n2",
        "4\0b",
        "\0",
        "4\t2",
        "\u{1b}[2J42",
        "42\u{7f}",
        "42\u{85}",
        "\u{9f}42",
    ] {
        assert_eq!(named(of_42_and(json!({ "sub": id }))), None, "{id:?}");
    }
}

#[test]
fn a_claim_may_name_the_plan_and_one_that_nobody_defined_is_told() {
    let plans = ClientPlans::new(["silver", "gold"]);
    let tokens = |claim: Option<&str>| {
        by_secret(|rules| {
            rules.plan_claim = claim.map(str::to_owned);
            rules.plans = plans.clone();
        })
    };
    let read_plan = |claim, more| {
        let token = Signer::hs256(SECRET).sign(&of_42_and(more));
        tokens(claim).user(token.as_bytes()).unwrap().plan
    };
    let gold = || NamedPlan::Plan(plans.called("gold").unwrap());
    let plan = Some("https://id.example/plan");
    assert_eq!(
        read_plan(plan, json!({ "https://id.example/plan": "gold" })),
        gold()
    );
    assert_eq!(read_plan(Some("plan"), json!({ "plan": "gold" })), gold());
    for nothing in [
        json!({}),
        json!({ "plan": null }),
        json!({ "Plan": "gold" }),
    ] {
        assert_eq!(read_plan(Some("plan"), nothing), NamedPlan::Nothing);
    }
    assert_eq!(
        read_plan(None, json!({ "plan": "gold" })),
        NamedPlan::Nothing
    );
    for (claim, name) in [
        (json!("Gold"), "Gold"),
        (json!(""), ""),
        (json!("a\nb"), "a b"),
        (json!(7), "7"),
        (json!(["gold"]), "[\"gold\"]"),
        (json!("x".repeat(9_000 / 2)), &"x".repeat(64)),
    ] {
        let plan = read_plan(Some("plan"), json!({ "plan": claim }));
        assert_eq!(plan, NamedPlan::Unknown(name.into()));
    }
}

#[test]
fn a_dot_in_the_name_of_a_claim_leads_into_an_object() {
    let plans = ClientPlans::new(["gold"]);
    let tokens = by_secret(|rules| {
        rules.claim = "account.id".to_owned();
        rules.plan_claim = Some("account.plan".to_owned());
        rules.claims = ["account.org".into(), "scopes".into()].into();
        rules.plans = plans.clone();
    });
    let account = json!({ "id": "7", "plan": "gold", "org": 3 });
    let claims = of_42_and(json!({ "account": account, "scopes": ["b", "a"] }));
    let token = Signer::hs256(SECRET).sign(&claims);
    let user = tokens.user(token.as_bytes()).unwrap();
    assert_eq!(&*user.id, "7");
    assert_eq!(user.plan, NamedPlan::Plan(plans.called("gold").unwrap()));
    let shown = |name| user.claims.value(name).map(ToString::to_string);
    assert_eq!(shown("account.org").as_deref(), Some("3"));
    assert_eq!(shown("scopes").as_deref(), Some("a, b"));
    assert_eq!(shown("sub"), None, "nobody asked for it");
}

/// If a request's API key is refused, its token does not count either. So limits per claim count the caller by address.
#[test]
fn a_refused_key_leaves_nothing_of_a_token_beside_it() {
    const KEY: HeaderName = HeaderName::from_static("x-api-key");
    let tokens = by_secret(|rules| rules.claims = ["tenant".into()].into());
    let key = ClientSource::ApiKey {
        header: KEY,
        keys: ApiKeys::new([]),
        unknown: UnknownKey::Reject,
    };
    let clients = Clients {
        sources: vec![ClientSource::Token(tokens.into()), key],
        ..Clients::default()
    };
    let token = Signer::hs256(SECRET).sign(&of_42_and(json!({ "tenant": "acme" })));
    let bearer = format!("Bearer {token}");
    let by = |sent: &[(HeaderName, &str)]| {
        let peer = Peer::connected(([192, 0, 2, 1], 4711).into());
        clients.identify(peer, &headers(sent))
    };
    let caller = by(&[(AUTHORIZATION, &bearer)]);
    assert_eq!(caller.claims.value("tenant").unwrap().to_string(), "acme");
    assert!(caller.has_token);
    let refused = by(&[(AUTHORIZATION, &bearer), (KEY, "made-up")]);
    assert_eq!(refused.refused, Some(Credentials::ApiKey));
    assert_eq!(refused.claims, Claims::default());
    assert_eq!((refused.user_id, refused.has_token), (None, false));
}
