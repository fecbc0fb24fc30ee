//! Callers: what they show to be believed, what they try instead, and what is left for them.

use aws_lc_rs::{digest, hmac};
use http::Method;
use tidegate_testkit::{Answer, Client, RedisConnection, RedisServer, Reply};

use crate::kit::{Bench, number, send};

/// The proxy that these tests trust.
pub(crate) const TRUST: &str = "trusted_proxies: [127.0.0.1]\n";

/// The SHA-256 of a key in hexadecimal digits, as it is listed.
pub(crate) fn sha256(key: &str) -> String {
    let hash = digest::digest(&digest::SHA256, key.as_bytes());
    hash.as_ref().iter().map(|b| format!("{b:02x}")).collect()
}

/// An entry of a list of keys: the key `alpha-key` is called `alpha`.
pub(crate) fn listed(name: &str) -> String {
    let hash = sha256(&format!("{name}-key"));
    format!("{{ name: {name}, hash: \"sha256:{hash}\" }}")
}

/// A token signed with HMAC and SHA-256.
pub(crate) fn token(secret: &str, claims: &serde_json::Value) -> String {
    let text = format!(
        "{}.{}",
        base64url(br#"{"alg":"HS256","typ":"JWT"}"#),
        base64url(claims.to_string().as_bytes())
    );
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signature = hmac::sign(&key, text.as_bytes());
    format!("{text}.{}", base64url(signature.as_ref()))
}

/// The secret of the tokens that [`JWT`] verifies.
pub(crate) const TOKEN_KEY: &str = include_str!("token.key");

/// Settings of `jwt` for tokens signed with [`TOKEN_KEY`].
pub(crate) const JWT: &str = concat!(
    "algorithms: [HS256], key_file: \"",
    env!("CARGO_MANIFEST_DIR"),
    "/tests/it/token.key\""
);

/// The `Authorization` of a user, with a token of [`TOKEN_KEY`].
pub(crate) fn bearer(user: &str) -> String {
    bearer_of(&serde_json::json!({ "sub": user, "exp": FAR }))
}

/// The `Authorization` of these claims.
pub(crate) fn bearer_of(claims: &serde_json::Value) -> String {
    format!("Bearer {}", token(TOKEN_KEY, claims))
}

/// Without padding (RFC 7515, 2).
pub(crate) fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let at = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..=three.len() {
            let index = (bits >> (18 - 6 * digit)) & 63;
            text.push(char::from(DIGITS[index as usize]));
        }
    }
    text
}

/// An end of a token's life that no test sees, in seconds since the epoch.
pub(crate) const FAR: u64 = 4_000_000_000;

/// A client at 127.0.0.`last`, which knows what a 401 says.
pub(crate) fn at(bench: &Bench, last: u8) -> Client {
    Client::new(bench.gateway.address)
        .from_ip([127, 0, 0, last])
        .knows("www-authenticate")
}

/// A GET with these headers.
pub(crate) async fn ask(client: &Client, target: &str, headers: &[(&str, &str)]) -> Answer {
    send(client, Method::GET, target, headers).await
}

/// What is left after a GET with these headers, which is admitted.
pub(crate) async fn left(client: &Client, target: &str, headers: &[(&str, &str)]) -> u64 {
    let answer = ask(client, target, headers).await;
    assert_eq!(answer.status, 200, "{headers:?}: {answer:?}");
    number(&answer, "x-ratelimit-remaining").unwrap()
}

/// A gateway with one limit of 1,000 per `per`, which tells its upstream in X-Client-Id whom it takes callers for.
pub(crate) async fn told_upstream(store: &str, head: &str, per: &str) -> Bench {
    Bench::start(&format!(
        "
{store}
{head}
forward_client: X-Client-Id
limits:
  own: {{ fixed_window: {{ limit: 1000, window: 31d }}, per: {per} }}
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [own] }}
"
    ))
    .await
}

/// Whom the upstream was told to be answering last.
pub(crate) fn last_client(bench: &Bench) -> String {
    let arrivals = bench.upstream.requests();
    let client = arrivals.last().unwrap().header("x-client-id");
    client.unwrap_or("nobody").to_owned()
}

/// Ways to claim an address with headers that nobody was asked to read.
pub(crate) fn claims_of(address: &str) -> Vec<(&'static str, String)> {
    let plain = [
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "true-client-ip",
        "cf-connecting-ip",
        "fastly-client-ip",
        "x_forwarded_for",
        "x-forwarded_for",
        "x_real_ip",
        "true_client_ip",
        "cf_connecting_ip",
    ];
    let mut claims: Vec<_> = plain
        .map(|name| (name, address.to_owned()))
        .into_iter()
        .collect();
    let node = match address.contains(':') {
        true => format!("for=\"[{address}]\""),
        false => format!("for={address}"),
    };
    claims.push(("forwarded", node));
    claims
}

/// All keys in a Redis, in order, but those of probes: these end within milliseconds.
pub(crate) async fn keys(redis: &RedisServer) -> Vec<String> {
    let found = redis.command(&["KEYS", "*"]).await;
    let mut keys: Vec<String> = found
        .as_array()
        .iter()
        .map(|key| key.as_str().to_owned())
        .filter(|key| !key.contains(":probe:"))
        .collect();
    keys.sort_unstable();
    keys
}

/// Where gateways keep what they share, and count each other.
pub(crate) const SHARED: [&str; 2] = ["tidegate:gateways", "tidegate:secret"];

/// The keys of limits: all but those of the gateways themselves.
pub(crate) async fn limit_keys(redis: &RedisServer) -> Vec<String> {
    let mut keys = keys(redis).await;
    keys.retain(|key| !SHARED.contains(&key.as_str()));
    keys
}

/// Demands that everything in a Redis ends some day, and nothing in another form than ours: `tidegate:{hash}:…`.
pub(crate) async fn all_keys_are_ours_and_end(redis: &RedisServer) {
    let mut connection = redis.connect().await;
    for key in keys(redis).await {
        assert!(has_our_form(&key), "{key}");
        assert!(lives(&mut connection, &key).await > 0, "{key} never ends");
    }
}

async fn lives(connection: &mut RedisConnection, key: &str) -> i64 {
    let reply = connection.command(&["PTTL", key]).await;
    reply.unwrap().as_int()
}

/// One of the gateways' own, or `tidegate:{32 digits}:limit:algorithm[/window][:32 digits]`.
fn has_our_form(key: &str) -> bool {
    let is_hash = |part: &str| {
        let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        part.len() == 32 && part.bytes().all(is_digit)
    };
    let Some(rest) = key.strip_prefix("tidegate:{") else {
        return SHARED.contains(&key);
    };
    let Some((tag, rest)) = rest.split_once("}:") else {
        return false;
    };
    let parts: Vec<&str> = rest.split(':').collect();
    let plain = |part: &str| {
        let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_/".contains(&b);
        !part.is_empty() && part.bytes().all(is_plain)
    };
    is_hash(tag)
        && match parts.as_slice() {
            [name, kind] => plain(name) && plain(kind),
            [name, kind, others] => plain(name) && plain(kind) && is_hash(others),
            _ => false,
        }
}

/// The value under which gateways keep what they share.
pub(crate) async fn shared_secret(redis: &RedisServer) -> Option<String> {
    match redis.command(&["GET", "tidegate:secret"]).await {
        Reply::Nil => None,
        found => Some(found.as_str().to_owned()),
    }
}
