//! Keys that are read, and do something else than they seem to say: each has a warning with its remedy, and its sound form has none.

use super::*;

pub(super) const LIMITS: &str = "limits: { a: { token_bucket: { capacity: 9, refill: 1/s } }, b: { token_bucket: { capacity: 9, refill: 1/s } } }\n";

/// Compares the warnings of texts in the place of `…`, each with a part of its only warning, or with none.
#[track_caller]
pub(super) fn compare(frame: &str, rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        let all = warnings(&frame.replace('…', text));
        match *expected {
            "" => assert_eq!(all, "", "{text}"),
            part => {
                assert!(all.contains(part), "{text}: {all}");
                assert_eq!(all.matches("warning: ").count(), 1, "{text}: {all}");
            }
        }
    }
}

/// A file with limits that are always charged, and a key more.
pub(super) fn of_file() -> String {
    format!(
        "…\n{LIMITS}always: [a, b]\nroutes: [{{ path: /**, upstream: \"http://127.0.0.1:9000\" }}]\n"
    )
}

/// A route with a key more.
pub(super) fn of_route(more: &str) -> String {
    format!(
        "{more}{LIMITS}always: [a, b]\nroutes:\n  - {{ path: /x/y, upstream: \"http://127.0.0.1:9000\", … }}\n  - {{ path: /**, upstream: \"http://127.0.0.1:9000\" }}\n"
    )
}

#[test]
fn keys_without_a_value() {
    compare(
        &of_file(),
        &[
            ("deny:\n  # - 10.0.0.0/8", ":1:1: `deny` has no value"),
            ("exempt: ~", ":1:1: `exempt` has no value"),
            ("clients: null", ":1:1: `clients` has no value"),
            ("trusted_proxies:", ":1:1: `trusted_proxies` has no value"),
            ("store:", ":1:1: `store` has no value"),
            ("timeouts: { idle: }", ":1:13: `idle` has no value"),
            ("deny: []", ""),
            ("trusted_proxies: []", ""),
        ],
    );
    compare(
        &of_route(""),
        &[
            ("limits: ~", ":4:54: `limits` has no value"),
            ("timeouts:", "`timeouts` has no value"),
            ("limits: []", ""),
        ],
    );
}

#[test]
fn keys_that_have_expired() {
    let key = format!("{{ hash: \"sha256:{HASH}\", … }}");
    let keys = format!("clients: [{{ api_key: {{ keys: [{key}] }} }}]");
    compare(
        &of_file().replace('…', &keys),
        &[
            (
                "name: acme, expires: 2025-01-31",
                "the key of `acme` has expired",
            ),
            (
                "name: K7Vq0pE, expires: 2025-01-31T00:00:00Z",
                ": this key has expired",
            ),
            ("name: acme, expires: 9999-01-31", ""),
        ],
    );
}

#[test]
fn secrets_that_are_names_of_files() {
    let file = "looks like the name of a file";
    compare(
        &of_file(),
        &[
            ("secret: /run/secrets/hunter2-hunter2", file),
            ("secret: file:///hunter2-hunter2", file),
            ("admin: { token: /etc/tidegate/hunter2-hunter2 }", file),
            ("secret: /9j/4AAQSkZJRgABAQAAAQABAAD+Gw==", ""),
            ("secret: a$b%c{{d}}e<f>g$(h)ijklm", ""),
            ("secret: \"${PASSWORD}-$hunter2-%hunter2\"", ""),
        ],
    );
}

#[test]
fn networks_that_are_not_what_they_seem() {
    let large = "this trusts a large part of all addresses";
    compare(
        &of_file(),
        &[
            ("trusted_proxies: [0.0.0.0/1]", large),
            ("trusted_proxies: [\"2000::/3\"]", large),
            (
                "trusted_proxies: [\"::ffff:0:0/96\"]",
                "this trusts every address",
            ),
            (
                "trusted_proxies: [0.0.0.0]",
                "no connection comes from this address",
            ),
            ("trusted_proxies: [10.0.0.0/8, \"fc00::/7\"]", ""),
            (
                "exempt: [128.0.0.0/1]",
                "this exempts a large part of all addresses",
            ),
            ("exempt: [0.0.0.0]", "no connection comes from this address"),
            ("deny: [\"::\"]", "no connection comes from this address"),
            ("deny: [224.0.0.0/3]", ""),
        ],
    );
    let proxies = "`allow` lists only networks of `trusted_proxies`";
    compare(
        &format!("trusted_proxies: [10.0.0.0/8]\n{}", of_file()),
        &[
            ("allow: [10.1.0.0/16, 10.0.0.7]", proxies),
            ("allow: [10.0.0.0/8]", ":2:9: `allow` lists only"),
            ("allow: [10.1.0.0/16, 192.0.2.0/24]", ""),
            ("allow: [10.0.0.0/7]", ""),
        ],
    );
}

/// An address of IPv4 that is written as IPv6 is trusted as the address that peers have.
#[test]
fn mapped_addresses_are_those_of_ipv4() {
    for text in ["::ffff:10.1.2.3", "::ffff:10.0.0.0/104"] {
        let settings = settings(&with(&format!("trusted_proxies: [\"{text}\"]")));
        assert!(
            settings.clients.trusted.contains([10, 1, 2, 3].into()),
            "{text}"
        );
        assert!(
            !settings.clients.trusted.contains([11, 1, 2, 3].into()),
            "{text}"
        );
    }
    for (text, expected) in [
        (
            "\"::ffff:10.1.2.3/104\"",
            "the network 10.0.0.0/8 or the address 10.1.2.3",
        ),
        ("010.001.000.000/16", "have no leading zeros"),
        ("10.0.0.0/+8", "is not a network"),
    ] {
        let error = parse(&with(&format!("trusted_proxies: [{text}]"))).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let error = parse(&with("deny: [10.1.2.3, \"::ffff:10.1.2.3\"]")).unwrap_err();
    assert!(
        error.to_string().contains("the same entry is here twice"),
        "{error}"
    );
}

#[test]
fn ports_of_another_scheme() {
    compare(
        "limits: { a: { token_bucket: { capacity: 9, refill: 9/s } } }\nalways: [a]\nroutes: [{ path: /**, upstream: \"…\" }]",
        &[
            ("http://api.example.com:443", "`http` at port 443"),
            ("h2c://api.example.com:443", "did you mean https://?"),
            ("https://api.example.com:80", "did you mean http://?"),
            ("https://api.example.com:443", ""),
            ("http://api.example.com:8443", ""),
            (
                "https://203.0.113.7",
                "must have the address 203.0.113.7 itself",
            ),
            ("https://[2001:db8::1]:8443", "`tls: { server_name: NAME }`"),
            ("http://203.0.113.7", ""),
        ],
    );
    let group = "upstreams: { api: { servers: [\"https://203.0.113.7\"]… } }\nroutes: [{ path: /**, upstream: api }]";
    compare(
        &format!("{LIMITS}always: [a, b]\n{group}"),
        &[
            ("", "must have the address 203.0.113.7 itself"),
            (", tls: { server_name: api.example.com }", ""),
            (", tls: { server_name: 203.0.113.7 }", ""),
        ],
    );
    let redis = "secret: hunter2-hunter2-hunter2\nstore: { redis: { gateways: 1, url: \"…\" } }";
    compare(
        &of_file().replace('…', redis),
        &[
            (
                "redis://:hunter2@x.redis.example.com:6380/0",
                "`redis` at port 6380",
            ),
            ("rediss://:hunter2@x.redis.example.com:6380", ""),
            ("redis://:hunter2@127.0.0.1:6380", ""),
            ("redis://redis:6380", ""),
        ],
    );
}

#[test]
fn servers_that_are_elsewhere() {
    compare(
        &format!(
            "…\n{LIMITS}always: [a, b]\nroutes: [{{ path: /**, upstream: \"http://127.0.0.1:8080\" }}]\n"
        ),
        &[
            ("listen: 127.0.0.1:8081", ""),
            ("listen: 127.0.0.2:8080", ""),
            ("listen: 10.0.0.1:8080", ""),
            ("listen: \"[::1]:8080\"", ""),
        ],
    );
}

#[test]
fn settings_without_effect() {
    compare(
        &of_file(),
        &[
            (
                "max_connections: 10\nmax_connections_per_ip: 11",
                ":2:25: this bound per address has no effect",
            ),
            ("max_connections: 10\nmax_connections_per_ip: 10", ""),
            (
                "deny: [0.0.0.0/0]\nallow: [10.0.0.1]",
                "neither `allow` nor `exempt` admits",
            ),
        ],
    );
    compare(
        &of_route(""),
        &[
            (
                "methods: [POST], retries: { attempts: 1 }",
                "`retries` has no effect on this route",
            ),
            ("methods: [POST, GET], retries: { attempts: 1 }", ""),
        ],
    );
    let redis = "secret: hunter2-hunter2-hunter2\nstore: { redis: { gateways: 1, url: \"redis://redis\", sync_every: 1s… } }";
    let limits = "fixed_window: { limit: 9, window: 1m }";
    let frame = of_file()
        .replace('…', redis)
        .replace("token_bucket: { capacity: 9, refill: 1/s }", limits);
    compare(
        &frame,
        &[
            ("", "`sync_every` has no effect here"),
            (", mode: synced", ""),
        ],
    );
    compare(
        &format!(
            "{LIMITS}always: [a, b]\nupstreams: {{ c: {{ servers: [\"http://h:1\", …] }} }}\nroutes: [{{ path: /**, upstream: c }}]"
        ),
        &[
            ("\"http://h:1\"", "this server is here twice"),
            (
                "{ url: \"http://h:1\", weight: 2 }",
                "this server is here twice",
            ),
            ("\"h2c://h:1\", \"http://h:2\"", ""),
        ],
    );
}

/// Each source of one header sees the credentials of the other, and may reject them.
#[test]
fn sources_that_reject_what_another_source_reads() {
    let [api_key, jwt] = [
        &format!("{{ api_key: {{ keys: [{{ name: x, hash: \"sha256:{HASH}\" }}] KEY }} }}"),
        "{ jwt: { algorithms: [RS256], jwks_url: \"https://id.example.com/keys.json\" JWT } }",
    ];
    let of = |sources: [&str; 2], key: &str, token: &str| {
        let sources = sources.join(", ").replace("KEY", key);
        format!("clients: [{}]", sources.replace("JWT", token))
    };
    let (keys_first, tokens_first) = ([api_key, jwt], [jwt, api_key]);
    let expected = "this also rejects the credentials of another source of `authorization`";
    let (header, reject) = (
        ", header: Authorization",
        ", header: Authorization, unknown: reject",
    );
    let own = ", header: X-Token, invalid: reject";
    compare(
        &of_file(),
        &[
            (&of(keys_first, reject, ""), expected),
            (&of(tokens_first, reject, ""), expected),
            (&of(keys_first, header, ", invalid: reject"), expected),
            (&of([jwt, jwt], "", ", invalid: reject"), expected),
            (&of(keys_first, header, ""), ""),
            (
                &of(tokens_first, ", unknown: reject", ", invalid: reject"),
                "",
            ),
            (&of(keys_first, reject, own), ""),
            (&of([jwt, jwt], "", ""), ""),
        ],
    );
}

#[test]
fn port_443_without_tls() {
    let folder = tempfile::tempdir().unwrap();
    let authority = tidegate_testkit::Authority::new();
    let (cert, key) = authority.issue(&["localhost"]).write(folder.path(), "own");
    let (cert, key) = (cert.display(), key.display());
    let tls = format!(
        "listen: {{ address: \"127.0.0.1:443\", tls: {{ cert: \"{cert}\", key: \"{key}\" }} }}"
    );
    compare(
        &of_file(),
        &[
            ("listen: 127.0.0.1:443", ":1:9: port 443 without `tls`\n"),
            ("listen: { address: \"127.0.0.1:443\" }", ":1:20: port 443"),
            (
                "listen: [127.0.0.1:80, \"127.0.0.1:443\"]",
                ":1:24: port 443",
            ),
            ("listen: 127.0.0.1:8443", ""),
            (&tls, ""),
        ],
    );
}

#[test]
fn samples_of_lines_that_are_always_written() {
    let frame = of_file().replace('…', "log: { access: { … } }");
    let expected = ":1:53: `sample` hardly has an effect beside this `filter`\n";
    compare(
        &frame,
        &[
            ("filter: { status: [429] }, sample: 10%", expected),
            (
                "filter: { status: [429, 5xx], outcome: [limited] }, sample: 1%",
                "hardly has an effect",
            ),
            (
                "filter: { outcome: [failed] }, sample: 0%",
                "hardly has an effect",
            ),
            ("sample: 10%", ""),
            ("filter: { status: [429] }", ""),
            ("filter: { status: [429] }, sample: 100%", ""),
            ("filter: { status: [404, 429] }, sample: 10%", ""),
            ("filter: { status: [4xx] }, sample: 10%", ""),
            ("filter: { outcome: [limited, forwarded] }, sample: 10%", ""),
            ("filter: { status: [5xx], duration: 1s }, sample: 1%", ""),
        ],
    );
}
