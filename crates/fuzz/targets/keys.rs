//! Checks that `Hasher::keys` and `Charge::redis_key` follow their rules for any request.
//!
//! An input's first line has a letter for each part of a limit's key (see [`per`]). Two requests follow, with the line `--` between them.
//! Each of their lines has a letter, a blank, and a value (see [`Asked::read`]). The two requests must have the same key if and only if the
//! parts of their keys are the same.

#![no_main]

#[path = "keys/asked.rs"]
mod asked;

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName};
use libfuzzer_sys::{Corpus, fuzz_target};
use tidegate_core::FixedWindow;
use tidegate_identity::{AddressFrom, Client, ClientSource, Clients, Credentials, TrustedProxies};
use tidegate_identity::{api_keys, api_keys::ApiKeys, api_keys::ListedKey, api_keys::UnknownKey};
use tidegate_store::{Charge, Limit, OnFailure};
use tidegate_tower::{Answers, Hasher, Peer, Per, Policy, Rule};

use asked::Asked;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const USER_ID: HeaderName = HeaderName::from_static("x-user-id");
const TENANT: HeaderName = HeaderName::from_static("x-tenant");
const CLIENT: HeaderName = HeaderName::from_static("x-client");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// The API key that the gateway lists, if the input has a name for the key.
const LISTED: &[u8] = b"open-sesame";
const PROXY: &str = "10.0.0.1";
const STRANGER: &str = "198.51.100.7";
const PREFIX: &str = "tidegate";
/// The length of the IPv6 prefix that counts as one client, in bits.
const PREFIX_BITS: u8 = 64;

fuzz_target!(|data: &[u8]| -> Corpus {
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let pers: Vec<_> = parts
        .next()
        .unwrap_or_default()
        .iter()
        .take(6)
        .filter_map(per)
        .collect();
    let mut requests = vec![Vec::new()];
    for line in parts
        .next()
        .unwrap_or_default()
        .split(|byte| *byte == b'\n')
    {
        match line {
            b"--" => requests.push(Vec::new()),
            line => requests.last_mut().expect("never empty").push(line),
        }
    }
    let asked: Option<Vec<Asked<'_>>> = requests.iter().map(|lines| Asked::read(lines)).collect();
    let Some([one, other]) = asked.as_deref() else {
        return Corpus::Reject;
    };
    let (ours, theirs) = (one.keys(&pers, "secret"), other.keys(&pers, "secret"));
    let (our_parts, their_parts) = (one.parts(&pers), other.parts(&pers));
    assert_eq!(
        ours[0] == theirs[0],
        our_parts == their_parts,
        "{our_parts:?} {their_parts:?}"
    );
    assert_eq!(ours[1] == theirs[1], one.client() == other.client());
    assert_eq!(ours[2], theirs[2], "one budget for all");
    for asked in [one, other] {
        has_good_keys(asked, &pers, &hex(data));
        is_nobody_to_strangers(asked);
        is_nobody_with_a_bad_key(asked);
    }
    Corpus::Keep
});

/// Returns the part of a key for a letter of the first line.
fn per(letter: &u8) -> Option<Per> {
    Some(match letter {
        b'c' => Per::Client,
        b'i' => Per::Ip,
        b'n' => Per::Network(48),
        b'N' => Per::Network(32),
        b'a' => Per::ApiKey,
        b'u' => Per::UserId,
        b't' => Per::Claim("tenant".into()),
        b'r' => Per::Route,
        b'm' => Per::Method,
        b'o' => Per::Host,
        b'h' => Per::Header(TENANT),
        b'k' => Per::Cookie("session".into()),
        b'p' => Per::Path("id".into()),
        b'q' => Per::Query("id".into()),
        _ => return None,
    })
}

/// Requires that a Redis key contains only hashes and texts of the configuration, and that its only braces enclose the hash tag.
///
/// The secret must differ for each input: libFuzzer records compared values, and would otherwise put the hashes into later inputs.
fn has_good_keys(asked: &Asked<'_>, pers: &[Per], secret: &str) {
    let policy = policy(asked.route, pers);
    let keys = asked.keys(pers, secret);
    let mut redis_keys = Vec::new();
    for (rule, key) in policy.rules.iter().zip(keys) {
        let charge = Charge {
            limit: &rule.limit,
            key,
            cost: 1,
            origin: None,
        };
        let key = charge.redis_key(PREFIX);
        let rest = key
            .strip_prefix(PREFIX)
            .and_then(|key| key.strip_prefix(":{"));
        let (tag, rest) = rest.and_then(|key| key.split_once("}:")).expect("a tag");
        let id = format!("{}:{}", rule.limit.name(), rule.limit.quota().kind());
        let rest = rest.strip_prefix(&id).expect("the limit");
        is_hash(tag, &key);
        if !rest.is_empty() {
            is_hash(rest.strip_prefix(':').expect("a colon"), &key);
        }
        for value in asked.values.iter().filter(|value| value.len() >= 8) {
            for hash in [tag, rest] {
                // Values have at least 8 bytes, so `windows` does not panic. A value that is longer than the hash cannot match.
                let bare = hash
                    .as_bytes()
                    .windows(value.len())
                    .any(|part| part == *value);
                assert!(!bare && !hash.contains(&hex(value)), "{key}");
            }
        }
        redis_keys.push(key);
    }
    redis_keys.sort_unstable();
    redis_keys.dedup();
    assert_eq!(
        redis_keys.len(),
        policy.rules.len(),
        "each limit has its own key"
    );

    let others = asked.keys(pers, "another secret");
    for (key, other) in keys.iter().zip(others) {
        assert_ne!(key.tag, other.tag, "the secret decides");
    }
}

fn is_hash(text: &str, key: &str) {
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    assert!(text.len() == 32 && text.bytes().all(digit), "{key}");
}

/// Requires that no header changes the client or the keys of a request from an untrusted peer.
fn is_nobody_to_strangers(asked: &Asked<'_>) {
    let per = [
        Per::Client,
        Per::Ip,
        Per::Network(48),
        Per::ApiKey,
        Per::UserId,
    ];
    let rules: Vec<_> = per.map(|per| rule("limit", &[per])).into();
    let policy = Policy {
        route: "route".into(),
        rules: rules.into(),
        always: 0,
        access: None,
        answers: Answers::default(),
    };
    let hasher = Hasher::new("secret");
    // The headers claim that the peer is a proxy for another client.
    let mut headers = asked.request.headers().clone();
    for (name, value) in asked.told() {
        headers.insert(name, value);
    }
    for from in [
        AddressFrom::XForwardedFor,
        AddressFrom::Forwarded,
        AddressFrom::Connection,
    ] {
        let clients = clients(None, UnknownKey::FallThrough, from);
        let caller = clients.identify(peer(STRANGER), &headers);
        let bare = clients.identify(peer(STRANGER), &HeaderMap::new());
        assert_eq!(caller.client, Client::Ip(peer(STRANGER).address.ip()));
        assert_eq!(
            hasher.keys(&policy, &caller, &asked.request),
            hasher.keys(&policy, &bare, &asked.request)
        );
    }
}

/// Requires that a caller with an unlisted API key is identified only by its address under `UnknownKey::Reject`, even if the request has
/// other credentials.
fn is_nobody_with_a_bad_key(asked: &Asked<'_>) {
    let caller = asked.caller(UnknownKey::Reject);
    let mut keys = asked.request.headers().get_all(API_KEY).iter();
    let has_key = keys.any(|key| !key.as_bytes().trim_ascii().is_empty());
    let listed = asked.shown_key().filter(|(kind, _)| *kind == "api_key");
    let unknown = has_key && listed.is_none() && !asked.is_twice(&API_KEY);
    let refused = match unknown {
        true => Some(Credentials::ApiKey),
        false => asked.is_ambiguous().then_some(Credentials::Ambiguous),
    };
    assert_eq!(caller.refused, refused);
    assert_eq!(caller.unknown_key, unknown);
    if refused.is_some() {
        assert_eq!(caller.client, caller.ip);
        assert_eq!(
            (caller.named_by, caller.api_key, caller.user_id),
            (None, None, None)
        );
    } else {
        // These names are in the order of the sources in `clients`.
        let by = ["api_key", "user_id", "ip"]
            .iter()
            .position(|kind| *kind == asked.client().0);
        assert_eq!(caller.named_by, by);
    }
}

fn clients(listed: Option<&str>, unknown: UnknownKey, address_from: AddressFrom) -> Clients {
    let listed = listed.map(|name| ListedKey {
        name: name.into(),
        sha256: api_keys::hash(LISTED),
        expires: None,
        plan: None,
    });
    Clients {
        sources: vec![
            ClientSource::ApiKey {
                header: API_KEY,
                keys: ApiKeys::new(listed),
                unknown,
            },
            ClientSource::UserId { header: USER_ID },
            ClientSource::Ip,
        ],
        trusted: TrustedProxies::new(vec![PROXY.parse::<IpAddr>().expect("an address").into()]),
        address_from,
        ipv6_prefix: PREFIX_BITS,
        forward_client: Some(CLIENT),
        members: Default::default(),
    }
}

fn policy(route: &str, pers: &[Per]) -> Policy {
    let rules = [
        rule("some", pers),
        rule("client", &[Per::Client]),
        rule("all", &[]),
    ];
    Policy {
        route: route.into(),
        rules: rules.into(),
        always: 0,
        access: None,
        answers: Answers::default(),
    }
}

fn rule(name: &str, per: &[Per]) -> Rule {
    let quota = FixedWindow::new(10, 1_000_000).expect("a good quota");
    Rule::new(Limit::new(name, quota, OnFailure::Local), per)
}

fn peer(address: &str) -> Peer {
    Peer::connected(SocketAddr::new(address.parse().expect("an address"), 4711))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
