//! Values and keys of any length: each is refused, and no message repeats it.

use super::*;

/// Every place of a configuration that takes a text of one's own, with `LONG` in it.
const PLACES: [&str; 22] = [
    "listen: LONG",
    "admin: { address: \"127.0.0.1:0\", token: LONG }",
    "secret: LONG",
    "trusted_proxies: [LONG]",
    "LONG: 1",
    "always: [LONG]",
    "limits: { LONG: { fixed_window: { limit: 1, window: 1s } } }",
    "limits: { a: { LONG: { limit: 1, window: 1s } } }",
    "limits: { a: { fixed_window: { limit: LONG, window: 1s } } }",
    "limits: { a: { fixed_window: { limit: 1, window: LONG } } }",
    "limits: { a: { fixed_window: { limit: 1, window: 1s }, per: [\"header:LONG\"] } }",
    "limits: { a: { fixed_window: { limit: 1, window: 1s }, per: [\"cookie:LONG\"] } }",
    "plans: { LONG: {} }",
    "clients: [{ api_key: { header: LONG } }]",
    "clients: [{ api_key: { keys: [{ name: LONG, hash: LONG }] } }]",
    "clients: [{ api_key: { keys_file: LONG } }]",
    "store: { redis: { url: \"redis://LONG\" } }",
    "store: { redis: { url: \"redis://127.0.0.1\", key_prefix: LONG } }",
    "upstreams: { a: { servers: [\"http://LONG\"] } }",
    "upstreams: { a: { servers: [\"http://a\"], health: { path: /LONG } } }",
    "unmatched: { status: 404, body: LONG }",
    "timeouts: { header: LONG }",
];

/// The same of a route.
const OF_ROUTES: [&str; 8] = [
    "host: LONG.example.com",
    "methods: [LONG]",
    "limits: [LONG]",
    "name: LONG",
    "request_headers: { set: { X-Long: LONG } }",
    "request_headers: { set: { LONG: a } }",
    "upstream_host: LONG",
    "cors: { origins: [\"https://LONG\"] }",
];

#[test]
fn a_text_without_an_end_is_refused_wherever_it_stands_and_not_repeated() {
    let of_routes = OF_ROUTES
        .map(|text| format!("routes: [{{ path: /**, upstream: http://127.0.0.1:9000, {text} }}]"));
    let paths = [
        "routes: [{ path: /LONG, upstream: http://127.0.0.1:9000 }]".to_owned(),
        "routes: [{ path: /**, upstream: http://LONG }]".to_owned(),
    ];
    let places = PLACES.map(with).into_iter().chain(of_routes).chain(paths);
    for place in places {
        for long in [
            "a".repeat(256 << 10),
            "`a ".repeat(10_000),
            "1".repeat(20_000),
        ] {
            let error = match parse(&place.replace("LONG", &long)) {
                Ok(_) => panic!("accepted: {place}"),
                Err(error) => error.to_string(),
            };
            assert!(error.len() < 20_000, "{} bytes for {place}", error.len());
            let quoted = long.chars().take(201).collect::<String>();
            assert!(!error.contains(&quoted), "{place}: {error}");
        }
    }
}

#[test]
fn what_variables_make_of_a_value_is_bounded_as_well() {
    let env = |_: &str| Some("a".repeat(100_000));
    let text = with(&format!("secret: \"{}\"", "${A}".repeat(1_000_000)));
    let error = config::parse("gateway.yaml", &text, env).unwrap_err();
    assert!(
        error.to_string().contains("too long with its variables"),
        "{error}"
    );
    let text = with("secret: \"${A}\"");
    let error = config::parse("gateway.yaml", &text, env).unwrap_err();
    assert!(error.to_string().contains("is too long"), "{error}");
}
