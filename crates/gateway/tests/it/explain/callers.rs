//! Who a caller is taken for, and by which source.

use super::Asked;
use crate::callers::{FAR, listed, token};

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
            "client:   ip:127.0.0.1, because no source named a client"
        );
        assert_eq!(
            lines[3],
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
