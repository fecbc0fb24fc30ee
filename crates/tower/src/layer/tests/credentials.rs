//! Requests whose credentials are refused.

use super::*;

/// Makes a layer that refuses unknown keys and tokens. The limit `always` charges every request. The limit `route` does not charge requests
/// with refused credentials.
fn strict(always: u64, route: u64) -> Bench {
    let acme = ListedKey {
        name: "acme".into(),
        sha256: hash(b"acme's key"),
        expires: None,
        plan: None,
    };
    let key = ClientSource::ApiKey {
        header: KEY,
        keys: ApiKeys::new([acme]),
        unknown: UnknownKey::Reject,
    };
    let rules = TokenRules {
        header: AUTHORIZATION,
        signatures: vec![Signature::Hs256],
        issuer: None,
        audience: None,
        leeway: 60,
        claim: "sub".to_owned(),
        plan_claim: None,
        claims: Arc::default(),
        plans: ClientPlans::default(),
        invalid: InvalidToken::Reject,
    };
    let keys = TokenKeys::from_file(&rules.signatures, b"secret").unwrap();
    let token = ClientSource::Token(Arc::new(Tokens::new(rules, keys)));
    let policy = Policy {
        route: "route".into(),
        rules: [
            rule("always", always, &[Per::Ip]),
            rule("route", route, &[Per::Ip]),
        ]
        .into(),
        always: 1,
        ..Policy::default()
    };
    let clients = Clients {
        sources: vec![key, token, ClientSource::Ip],
        ..Clients::default()
    };
    Bench::of(policy, clients)
}

#[tokio::test]
async fn who_shows_wrong_credentials_gets_401_and_goes_no_further() {
    let bench = strict(10, 10);
    for (header, value, credentials, challenge) in [
        (KEY, "made up", Credentials::ApiKey, "ApiKey"),
        (AUTHORIZATION, "Bearer a.b.c", Credentials::Token, "Bearer"),
    ] {
        let response = bench.ask_with(HOME, &[(header, value)]).await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        let text = response.headers()[WWW_AUTHENTICATE].to_str().unwrap();
        assert!(text.starts_with(challenge), "{text}");
        let decided = decided(&response);
        assert_eq!(decided.refused, Some(credentials));
        assert_eq!(decided.unknown_key, credentials == Credentials::ApiKey);
        assert_eq!(decided.client.to_string(), "ip:192.0.2.1");
        assert_eq!(decided.tightest, None);
    }
    assert_eq!(bench.called.load(Ordering::Relaxed), 0);
    let good = bench.ask_with(HOME, &[(KEY, "acme's key")]).await;
    assert_eq!(good.body(), "inner");
    assert_eq!(decided(&good).client.to_string(), "api_key:acme");
    assert_eq!(
        (decided(&good).refused, decided(&good).unknown_key),
        (None, false)
    );
}

#[tokio::test]
async fn a_401_is_charged_to_what_is_always_charged_and_to_nothing_else() {
    let bench = strict(10, 2);
    for left in (6..10).rev() {
        let response = bench.ask_with(HOME, &[(KEY, "made up")]).await;
        let decision = decided(&response).decision.as_ref().unwrap();
        let left_of: Vec<_> = decision
            .verdicts
            .iter()
            .flatten()
            .map(|v| v.remaining)
            .collect();
        assert_eq!(left_of, [left], "one limit was asked");
    }
    let good = bench.ask(HOME).await;
    let decision = decided(&good).decision.as_ref().unwrap();
    let left: Vec<_> = decision
        .verdicts
        .iter()
        .flatten()
        .map(|v| v.remaining)
        .collect();
    assert_eq!(left, [5, 1], "guesses cost the route's own limit nothing");
}

#[tokio::test]
async fn a_401_says_nothing_of_any_limit() {
    let response = strict(10, 10).ask_with(HOME, &[(KEY, "made up")]).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    for name in [
        X_RATELIMIT_LIMIT,
        X_RATELIMIT_REMAINING,
        X_RATELIMIT_RESET,
        RETRY_AFTER,
    ] {
        assert!(!response.headers().contains_key(&name), "{name}");
    }
}

#[tokio::test]
async fn who_guesses_too_often_is_told_429_and_no_longer_whether_it_was_right() {
    let bench = strict(3, 100);
    for _ in 0..3 {
        let response = bench.ask_with(HOME, &[(KEY, "made up")]).await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    }
    for key in ["made up", "acme's key"] {
        let response = bench.ask_with(HOME, &[(KEY, key)]).await;
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS, "{key}");
        assert!(!response.headers().contains_key(WWW_AUTHENTICATE), "{key}");
        assert_eq!(response.headers()[X_RATELIMIT_LIMIT], "3");
        let body: Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(body["violated-policies"], json!(["always"]), "{key}");
    }
    assert_eq!(bench.called.load(Ordering::Relaxed), 0);
    let elsewhere = bench.ask_with(Some("192.0.2.2"), &[(KEY, "made up")]).await;
    assert_eq!(elsewhere.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_401_needs_no_limits() {
    let mut bench = strict(1, 1);
    let enforced = &bench.layer.0;
    let policy = Policy {
        always: 0,
        access: None,
        ..enforced.policy.clone()
    };
    let store = enforced.store.clone();
    bench.layer = RateLimitLayer::new(
        policy,
        enforced.clients.clone(),
        Hasher::new(""),
        store,
        WaitQueues::default(),
    );
    for _ in 0..3 {
        let response = bench.ask_with(HOME, &[(KEY, "made up")]).await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert!(decided(&response).decision.is_none());
    }
    assert_eq!(
        bench.ask(HOME).await.status(),
        StatusCode::OK,
        "nothing was charged"
    );
}
