//! Who a caller is taken for, and by which source.

use serde_json::{Value, json};

use super::Asked;
use crate::callers::{FAR, base64url, listed, sha256, token};

#[test]
fn it_tells_who_a_caller_is_taken_for() {
    let asked = Asked::in_memory();
    let who = |more: &[&str]| {
        let told = asked.told("client", &[&["GET", "/all"], more].concat());
        told.split_once(", ").unwrap().0.to_owned()
    };
    let (key, user) = ("X-API-Key: alpha-key", "X-User-Id: rider-7");
    assert_eq!(who(&[]), "ip:127.0.0.1");
    assert_eq!(who(&["-H", key, "-H", user]), "api_key:alpha");
    assert_eq!(who(&["-H", user]), "user_id:rider-7");
    assert_eq!(who(&["-H", "X-API-Key: made-up"]), "ip:127.0.0.1");
    // A header that is given twice is sent twice, and then names nobody.
    assert_eq!(who(&["-H", key, "-H", key]), "ip:127.0.0.1");
    assert_eq!(
        who(&["-H", user, "-H", "x-user-id: rider-8"]),
        "ip:127.0.0.1"
    );
    // Whoever is not trusted is an address.
    assert_eq!(who(&["--peer", "192.0.2.1", "-H", user]), "ip:192.0.2.1");
    assert_eq!(who(&["--peer", "2001:db8:1:2:3::4"]), "ip:2001:db8:1:2::");
    assert_eq!(
        who(&["-H", "X-Forwarded-For: 6.6.6.6, 192.0.2.9"]),
        "ip:192.0.2.9"
    );
}

#[test]
fn it_names_the_source_that_named_the_caller() {
    let mut asked = Asked::new("");
    let file = asked.0.path().join("token.key");
    std::fs::write(file, "the tokens' secret").unwrap();
    let yaml = |rest: &str| {
        let sources = format!(
            "
trusted_proxies: [127.0.0.1]
clients:
  - api_key: {{ header: X-Own-Key, unknown: reject, keys: [{}] }}
  - jwt: {{ algorithms: [HS256], key_file: token.key, invalid: reject }}
  - user_id: {{ header: X-Own-User }}
{rest}",
            listed("alpha")
        );
        format!(
            "{sources}
limits:
  guard: {{ fixed_window: {{ limit: 9, window: 1h }}, per: [ip] }}
  own: {{ fixed_window: {{ limit: 9, window: 1h }} }}
always: [guard]
routes:
  - {{ path: /**, upstream: http://127.0.0.1:9000, limits: [own] }}
"
        )
    };
    let write = |asked: &mut Asked, rest| {
        std::fs::write(asked.0.path().join("gateway.yaml"), yaml(rest)).unwrap();
    };
    write(&mut asked, "");
    let claims = serde_json::json!({ "sub": "rider-9", "exp": FAR });
    let bearer = |secret| format!("Authorization: Bearer {}", token(secret, &claims));
    let (valid, forged) = (bearer("the tokens' secret"), bearer("another secret"));
    let lines = |more: &[&str]| asked.explain(&[&["GET", "/all"], more].concat());
    let client = |more: &[&str]| lines(more)[2].clone();
    let user = "X-Own-User: rider-7";
    for (headers, told) in [
        (
            &["-H", "X-Own-Key: alpha-key", "-H", user][..],
            "api_key:alpha, named by api_key: the header x-own-key",
        ),
        (
            &["-H", &valid, "-H", user],
            "user_id:rider-9, named by jwt: the header authorization",
        ),
        (
            &["-H", user],
            "user_id:rider-7, named by user_id: the header x-own-user of a trusted proxy",
        ),
        (&[], "ip:127.0.0.1, because no source named a client"),
        (
            &["--peer", "192.0.2.1", "-H", user],
            "ip:192.0.2.1, because no source named a client",
        ),
    ] {
        assert_eq!(client(headers), format!("client:   {told}"));
    }
    // What is refused is told with the answer, and charged to the guard alone.
    for (header, credentials) in [("X-Own-Key: made-up", "API key"), (&forged, "token")] {
        let lines = lines(&["-H", header, "-H", user]);
        assert_eq!(
            lines[2],
            format!("client:   ip:127.0.0.1, because this {credentials} is refused")
        );
        let why = match credentials {
            "token" => "jwt: the header authorization; the token's signature is wrong",
            _ => "api_key: the header x-own-key; the key is not listed",
        };
        assert_eq!(lines[3], format!("not by:   {why}"));
        assert_eq!(
            lines[4],
            format!(
                "answer:   401, for this {credentials} is refused; only what is under `always` is charged"
            )
        );
        assert!(!lines.concat().contains("made-up"), "{lines:?}");
    }
    write(&mut asked, "  - ip: { from: forwarded }");
    let hop = ["GET", "/all", "-H", "Forwarded: for=192.0.2.9"];
    assert_eq!(asked.told("client", &hop), "ip:192.0.2.9, named by ip");
}

/// Why a key or a token did not name the client, without a word of it.
#[test]
fn it_says_why_a_key_or_a_token_named_nobody() {
    let keys = format!(
        "{}, {{ name: old, hash: \"sha256:{}\", expires: 2020-01-31 }}",
        listed("alpha"),
        sha256("old-key")
    );
    let asked = Asked::new(&format!(
        "
trusted_proxies: [10.0.0.0/8]
clients:
  - api_key: {{ keys: [{keys}] }}
  - jwt: {{ algorithms: [HS256], key_file: token.key, issuer: us, audience: api, leeway: 1s }}
  - user_id: {{}}
  - ip: {{}}
routes: [{{ path: /**, upstream: \"http://127.0.0.1:9000\" }}]
"
    ));
    std::fs::write(asked.0.path().join("token.key"), "the tokens' secret").unwrap();
    let why = |headers: &[&str]| {
        let mut arguments = vec!["GET", "/"];
        for header in headers {
            arguments.extend(["-H", header]);
        }
        let lines = asked.explain(&arguments);
        assert!(!lines.concat().contains("hunter2"), "{lines:?}");
        let told = lines
            .iter()
            .filter_map(|line| line.strip_prefix("not by:   "));
        told.map(str::to_owned).collect::<Vec<_>>()
    };
    for (key, told) in [
        ("X-API-Key: alpha-key", None),
        ("X-API-Key: hunter2", Some("the key is not listed")),
        ("X-API-Key: old-key", Some("the key of old has expired")),
        ("X-API-Key: ", Some("it is empty")),
    ] {
        let told = told.map(|told| format!("api_key: the header x-api-key; {told}"));
        assert_eq!(why(&[key]), Vec::from_iter(told), "{key}");
    }
    let twice = why(&["X-API-Key: hunter2", "X-API-Key: alpha-key"]);
    assert_eq!(
        twice,
        ["api_key: the header x-api-key; it is there more than once"]
    );
    let user = why(&["X-User-Id: hunter2"]);
    let told = "user_id: the header x-user-id; it is believed from `trusted_proxies` only";
    assert_eq!(user, [told]);

    let good = json!({ "sub": "rider-9", "iss": "us", "aud": "api", "exp": FAR });
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        token("the tokens' secret", &claims)
    };
    let without = |name: &str| {
        let mut claims = good.clone();
        claims.as_object_mut().unwrap().remove(name);
        token("the tokens' secret", &claims)
    };
    let other_algorithm = [r#"{"alg":"HS512"}"#, "{}", "x"].map(|it| base64url(it.as_bytes()));
    for (token, told) in [
        (token("the tokens' secret", &good), None),
        (
            token("another secret", &good),
            Some("the token's signature is wrong"),
        ),
        (
            with("exp", json!(1_000)),
            Some("the token has expired (`exp`)"),
        ),
        (
            with("nbf", json!(FAR)),
            Some("the token is not valid yet (`nbf`)"),
        ),
        (
            with("aud", json!("web")),
            Some("the token is for another audience (`aud`)"),
        ),
        (
            with("iss", json!("hunter2")),
            Some("the token is of another issuer (`iss`)"),
        ),
        (without("aud"), Some("the token has no claim `aud`")),
        (without("exp"), Some("the token has no claim `exp`")),
        (
            without("sub"),
            Some("the token's claim `sub` holds no user ID"),
        ),
        (
            with("sub", json!(["hunter2"])),
            Some("a claim of the token has a wrong type, such as a list for a text"),
        ),
        (
            with("sub", json!(1.5)),
            Some("the token's claim `sub` holds no user ID"),
        ),
        ("hunter2".to_owned(), Some("it holds no signed token (JWT)")),
        (
            other_algorithm.join("."),
            Some("`algorithms` does not list the token's algorithm"),
        ),
        (
            "x".repeat(9_000),
            Some("the token is longer than 8192 bytes"),
        ),
    ] {
        let told = told.map(|told| format!("jwt: the header authorization; {told}"));
        let header = format!("Authorization: Bearer {token}");
        assert_eq!(why(&[&header]), Vec::from_iter(told), "{token}");
    }
    let scheme = why(&["Authorization: Basic aHVudGVyMg=="]);
    assert_eq!(
        scheme,
        ["jwt: the header authorization; its scheme is not Bearer"]
    );
    // Of several each is told.
    assert_eq!(
        why(&["X-API-Key: hunter2", "Authorization: Bearer hunter2"]).len(),
        2
    );
}

#[test]
fn it_tells_the_claims_that_limits_are_counted_per() {
    let asked = Asked::new(
        "
clients:
  - jwt: { algorithms: [HS256], key_file: token.key, claims: [tenant, org.id] }
limits:
  tenant: { fixed_window: { limit: 9, window: 1h }, per: [\"claim:tenant\"] }
  org: { fixed_window: { limit: 9, window: 1h }, per: [client, \"claim:org.id\"] }
routes:
  - { path: /all, upstream: http://127.0.0.1:9000, limits: [tenant, org] }
  - { path: /tenant, upstream: http://127.0.0.1:9000, limits: [tenant] }
",
    );
    std::fs::write(asked.0.path().join("token.key"), "the tokens' secret").unwrap();
    let claims = serde_json::json!({ "sub": "rider-9", "exp": FAR, "tenant": ["b", "a"] });
    let bearer = |secret| format!("Authorization: Bearer {}", token(secret, &claims));
    let told = |path: &str, header: &str| {
        let lines = asked.explain(&["GET", path, "-H", header]);
        let claims = lines.iter().filter_map(|line| line.strip_prefix("claim:"));
        claims
            .map(|line| line.trim().to_owned())
            .collect::<Vec<_>>()
    };
    let valid = bearer("the tokens' secret");
    let no_org = "no valid token has org.id: its limits count by address";
    assert_eq!(told("/all", &valid), ["tenant is a, b", no_org]);
    assert_eq!(told("/tenant", &valid), ["tenant is a, b"]);
    let no_tenant = "no valid token has tenant: its limits count by address";
    assert_eq!(told("/tenant", &bearer("another secret")), [no_tenant]);
}

#[test]
fn it_takes_a_certificate_from_a_file() {
    let asked = Asked::new(
        "
clients:
  - client_cert: { name: cn }
limits:
  own: { fixed_window: { limit: 9, window: 1h } }
routes:
  - { path: /all, upstream: http://127.0.0.1:9000, limits: [own] }
",
    );
    let authority = tidegate_testkit::Authority::new();
    let shown = authority.issue_client("billing", &[], &[]);
    shown.write(asked.0.path(), "own");
    let client = |more: &[&str]| asked.told("client", &[&["GET", "/all"], more].concat());
    assert_eq!(
        client(&["--client-cert", "own.pem"]),
        "client_cert:billing, named by client_cert: the cn of the certificate"
    );
    assert_eq!(
        client(&[]),
        "ip:127.0.0.1, because no source named a client"
    );
}
