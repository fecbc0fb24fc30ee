//! What looks wrong but would start.

use super::*;

const LIMIT: &str = "limits: { a: { fixed_window: { limit: 1, window: 1s } } }\n";
const REDIS: &str = "store: { redis: { url: \"redis://127.0.0.1\" } }\n";

#[test]
fn a_limit_that_no_route_uses() {
    let expected = "warning: gateway.yaml:2:11: no route uses the limit `a`\
        \n  |\n2 | limits: { a: { fixed_window: { limit: 1, window: 1s } } }\n  |           ^\n";
    warned(&with(LIMIT), expected);
}

#[test]
fn an_upstream_that_no_route_leads_to() {
    warned(
        &with("upstreams: { a: { servers: [http://h] } }"),
        ":2:14: no route leads to",
    );
}

#[test]
fn sticky_sessions_of_one_server_and_one_cookie_of_two_upstreams() {
    let upstreams = |text: &str| {
        format!(
            "secret: a-text-that-is-long-enough\n{LIMIT}always: [a]\nroutes: [{{ path: /, upstream: a }}, {{ path: /b, upstream: b }}]\nupstreams: {{ {text} }}\n"
        )
    };
    let two = "servers: [http://127.0.0.1:1, http://127.0.0.1:2]";
    let one = "servers: [http://127.0.0.1:1]";
    warned(
        &upstreams(&format!(
            "a: {{ {one}, balance: {{ hash: client }} }}, b: {{ {two} }}"
        )),
        "`balance` chooses among servers, and `a` has one",
    );
    warned(
        &upstreams(&format!(
            "a: {{ {two}, balance: {{ cookie: s }} }}, b: {{ {two}, balance: {{ cookie: s }} }}"
        )),
        "the upstream `a` sets the cookie `s`, too",
    );
    // A name may have several addresses, and cookies differ.
    let named = "servers: [http://pods.internal:80]";
    let text = upstreams(&format!(
        "a: {{ {named}, balance: {{ cookie: s }} }}, b: {{ {two}, balance: {{ cookie: t }} }}"
    ));
    assert_eq!(warnings(&text), "");
}

#[test]
fn a_path_of_health_checks_that_is_a_routes_own() {
    for (path, warns) in [
        ("/healthz", true),
        ("/{any}", true),
        ("/**", false),
        ("/other", false),
    ] {
        let text =
            format!("health: /healthz\nroutes: [{{ path: \"{path}\", upstream: http://h }}]\n");
        let expected = format!(":1:9: the route `{path}` has this path as well");
        assert_eq!(warnings(&text).contains(&expected), warns, "{path}");
    }
}

#[test]
fn a_file_of_overrides_with_redis() {
    let text = with(&format!("{REDIS}overrides_file: overrides.jsonl"));
    warned(&text, ":3:17: `overrides_file` has no effect with Redis");
}

#[test]
fn servers_that_nobody_verifies() {
    let text = "upstreams: { a: { servers: [https://h], tls: { verify: false } } }\n\
        routes: [{ path: /**, upstream: a }]\n";
    warned(
        text,
        ":1:56: the certificates of these servers are not verified",
    );
}

#[test]
fn an_upstream_of_which_one_client_may_hold_all() {
    let text = |servers: &str, bounds: &str| {
        format!(
            "upstreams: {{ a: {{ servers: [{servers}], {bounds} }} }}\n\
             routes: [{{ path: /**, upstream: a }}]\n"
        )
    };
    let expected = ":1:57: one client may hold all connections of this upstream";
    warned(&text("http://h", "max_connections: 3"), expected);
    for (servers, bounds) in [
        ("http://h", "max_connections: 4"),
        ("http://h, http://i", "max_connections: 2"),
        (
            "http://h",
            "max_connections: 3, max_connections_per_ip: 100%",
        ),
    ] {
        not_warned(&text(servers, bounds), "one client");
    }
}

#[test]
fn certificates_that_end_soon() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let folder = tempfile::tempdir().unwrap();
    let authority = tidegate_testkit::Authority::new();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let until = |end: Duration| {
        let (cert, key) = authority
            .issue_until(&["localhost"], end)
            .write(folder.path(), "own");
        let (cert, key) = (cert.display(), key.display());
        let tls = format!("{{ cert: \"{cert}\", key: \"{key}\" }}");
        with(&format!(
            "listen: {{ address: 127.0.0.1:0, tls: {tls} }}\n{LIMIT}always: [a]"
        ))
    };
    let expired =
        "gateway.yaml:2:46: a certificate in this file has expired, at 2021-01-01T00:00:00Z";
    warned(&until(Duration::from_secs(1_609_459_200)), expired);
    let soon = "gateway.yaml:2:46: a certificate in this file expires within 14 days, at 20";
    warned(&until(now + 13 * DAY), soon);
    assert_eq!(warnings(&until(now + 15 * DAY)), "");
}

#[test]
fn redis_without_a_secret() {
    warned(&with(REDIS), "warning: gateway.yaml: there is no `secret`");
    let empty = format!("{REDIS}secret: \"${{NOTHING:-}}\"");
    warned(&with(&empty), ":3:9: there is no `secret`");
}

#[test]
fn users_that_nobody_vouches_for() {
    warned(
        &with("clients: [{ user_id: {} }]"),
        ":2:11: this source never names a client",
    );
}

#[test]
fn certificates_that_no_listener_asks_for() {
    let text = with("clients: [{ client_cert: {} }]");
    warned(&text, ":2:11: this source never names a client");
    warned(&text, "no listener asks for client certificates");
}

#[test]
fn what_is_counted_per_something_that_no_source_names() {
    let text = LIMIT.replace(" } }\n", ", per: [client_cert] } }\n");
    warned(&with(&text), "no client source names a `client_cert`");
    let text = LIMIT.replace(" } }\n", ", per: [user_id] } }\n");
    warned(&with(&text), "no client source names a `user_id`");
}

#[test]
fn long_exact_logs() {
    let text = LIMIT.replace(
        "fixed_window: { limit: 1,",
        "sliding_window_log: { limit: 10001,",
    );
    warned(&with(&text), ":2:45: an exact log of this length is costly");
}

#[test]
fn on_failure_in_memory() {
    let text = LIMIT.replace(" } }\n", ", on_failure: open } }\n");
    warned(&with(&text), "`on_failure` has no effect here");
}

#[test]
fn a_route_without_any_limit() {
    warned(&with(""), ":1:18: the route `/**` has no limit");
    let always = format!("{LIMIT}always: [a]");
    assert_eq!(warnings(&with(&always)), "");
}

#[test]
fn key_sets_that_come_over_plain_http() {
    let source = |rest: &str| {
        let jwt = format!("{{ algorithms: [RS256, EdDSA], jwks_url: \"{rest} }}");
        with(&format!("clients: [{{ jwt: {jwt} }}]"))
    };
    let plain = ":2:58: this key set comes over plain http";
    warned(&source("http://issuer.example/keys.json\""), plain);
    warned(&source("http://192.0.2.1/keys.json\""), plain);
    for fine in [
        "https://issuer.example/keys.json",
        "http://127.0.0.2:8000",
        "http://[::1]/keys",
        "http://localhost/keys?key=value",
    ] {
        not_warned(&source(&format!("{fine}\"")), "jwks");
    }
}

#[test]
fn keys_that_nobody_verifies() {
    let accept = "clients: [{ api_key: { unknown: accept } }, { ip: {} }]\n";
    let limit = LIMIT.replace(" } }\n", ", per: [ip] } }\n");
    let text = format!("{accept}{limit}always: [a]");
    warned(
        &with(&text),
        ":2:33: keys that are not listed are not verified",
    );
}

#[test]
fn proxies_that_are_everybody() {
    let networks = with("trusted_proxies: [10.0.0.0/8, \"::/0\"]");
    warned(&networks, ":2:31: this trusts every address");
}

#[test]
fn addresses_that_nobody_tells() {
    let text = with("clients: [{ ip: { from: forwarded } }]");
    warned(&text, ":2:25: `from` has no effect here");
}

/// What a caller can make up bounds nothing, unless something verified stands beside it.
#[test]
fn limits_that_only_count_what_callers_make_up() {
    let counted = |per: &str, beside: &str| {
        let limits = LIMIT.replace(" } }\n", &format!(", per: [\"{per}\"] }}, {beside} }}\n"));
        with(&format!("{limits}always: [a, b]"))
    };
    let b = "b: { fixed_window: { limit: 9, window: 1s }, per: ";
    for per in [
        "header:x-session",
        "cookie:session",
        "path:id",
        "query:id",
        "host",
    ] {
        for alone in ["[]", "[route]", "[client, \"header:X\"]"] {
            let expected = format!("is counted per {per}, which is not verified");
            warned(&counted(per, &format!("{b}{alone} }}")), &expected);
        }
        for beside in ["[ip]", "[client]", "[ip/48, route]"] {
            let text = counted(per, &format!("{b}{beside} }}"));
            not_warned(&text, "which is not verified");
        }
    }
}

#[test]
fn a_name_that_is_not_in_the_path() {
    let limits = LIMIT.replace(" } }\n", ", per: [client, \"path:id\"] } }\n");
    let text = with(&format!("{limits}always: [a]"));
    warned(&text, "there is no {id} in the path of the route `/**`");
}

#[test]
fn a_shared_secret_that_can_be_guessed() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    fs::write(&key, "0123456789abcdef0123456789abcde\n").unwrap();
    let jwt = format!(
        "clients: [{{ jwt: {{ algorithms: [HS256], key_file: \"{}\" }} }}]",
        key.display()
    );
    warned(&with(&jwt), "this secret is short enough to be guessed");
    fs::write(&key, "0123456789abcdef0123456789abcdef\n").unwrap();
    not_warned(&with(&jwt), "guessed");
}

#[test]
fn plans_that_nobody_has_and_claims_that_name_none() {
    let key = |plan: &str| {
        format!(
            "clients: [{{ api_key: {{ keys: [{{ name: a, hash: sha256:{HASH}{plan} }}] }} }}]\n"
        )
    };
    let plans = format!("{LIMIT}plans: {{ gold: {{ a: unlimited }} }}\n");
    let nobody = "no client has the plan `gold`";
    warned(&with(&format!("{plans}{}", key(""))), nobody);
    not_warned(&with(&format!("{plans}{}", key(", plan: gold"))), nobody);

    let file = "src/clients/broken/keys/secret.txt";
    let jwt = format!(
        "clients: [{{ jwt: {{ algorithms: [HS256], key_file: {file}, plan_claim: tier }} }}]\n"
    );
    warned(&with(&jwt), "`plan_claim` has no effect here");
    for part in [nobody, "plan_claim"] {
        not_warned(&with(&format!("{plans}{jwt}")), part);
    }
}

#[test]
fn costs_that_nobody_is_believed_to_say() {
    let text = LIMIT.replace(" } }\n", ", cost: { header: X-Cost, max: 1 } } }\n");
    let unbelieved = "this header is never believed";
    warned(&with(&text), unbelieved);
    not_warned(
        &with(&format!("trusted_proxies: [10.0.0.1]\n{text}")),
        unbelieved,
    );
}

/// A catch-all that takes what a stricter route misses only by its spelling.
#[test]
fn routes_that_another_case_gets_around() {
    let of = |routes: &str| format!("{LIMIT}routes:\n{routes}");
    let login = "  - { name: login, path: /api/login, upstream: http://h, limits: [a] }\n";
    let rest = "  - { name: rest, path: /**, upstream: http://h }\n";
    let told =
        "gateway.yaml:4:13: the route `rest` takes `/API/LOGIN` without the limits of `login`";
    let both = of(&format!("{login}{rest}"));
    warned(&both, told);
    warned(&both, "`case_insensitive: true`");
    let silent = |routes: &str| not_warned(&of(routes), "/LOGIN");
    // Whoever has said how the upstream reads paths has thought of it.
    for said in ["true", "false"] {
        let login = login.replace(" }\n", &format!(", case_insensitive: {said} }}\n"));
        silent(&format!("{login}{rest}"));
    }
    // Nobody else takes it, or somebody no laxer.
    silent(login);
    silent(&format!(
        "{login}{}",
        rest.replace(" }\n", ", limits: [a] }\n")
    ));
    silent(&format!("{login}{}", rest.replace("/**", "/web/**")));
    silent(
        &format!("{login}{}", rest.replace("/**", "/**, host: b.com"))
            .replace("path: /api", "host: a.com, path: /api"),
    );
    silent(
        &format!("{login}{rest}")
            .replace(
                "upstream: http://h, limits",
                "methods: [GET], upstream: http://h, limits",
            )
            .replace("/**", "/**, methods: [POST]"),
    );
    // Names that have no case may still end with a dot.
    let digits = of(&format!("{}{rest}", login.replace("/api/login", "/1/2")));
    warned(&digits, "takes `/1./2.` without");
    // One line for each that takes them, however many there are.
    let many: String = (0..20)
        .map(|n| login.replace("login", &format!("n{n}")))
        .collect();
    let many = warnings(&of(&format!("{many}{rest}")));
    let remedies = many.matches("`case_insensitive: true`").count();
    assert_eq!(remedies, 1, "{many}");
    assert!(many.contains("of `n0` and 19 more"), "{many}");
}

#[test]
fn lists_of_everyone_or_of_nobody() {
    let user = "clients: [{ user_id: {} }]\n";
    for (text, expected) in [
        ("exempt: [0.0.0.0/0]", ":2:10: this exempts every address"),
        ("deny: [\"::/0\"]", ":2:8: this denies every address"),
        (
            "plans: { a: { members: [0.0.0.0/0] } }",
            ":2:25: every address is a member of this plan",
        ),
        (
            &format!("{user}trusted_proxies: [0.0.0.0/0]\ndeny: [\"user_id:42\"]"),
            ":4:8: nobody verifies this user ID",
        ),
        (
            &format!("{user}deny: [\"user_id:42\"]"),
            ":3:8: this entry has no effect",
        ),
    ] {
        warned(&with(text), expected);
    }
    let route = "routes: [{ path: /**, upstream: http://127.0.0.1:9000, exempt: [10.0.0.0/8] }]";
    warned(route, ":1:65: `exempt` has no effect on this route");
}

#[test]
fn an_exempt_key_that_a_file_may_list_one_day() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.yaml");
    fs::write(&file, "[]").unwrap();
    let text = format!(
        "clients: [{{ api_key: {{ keys_file: \"{}\" }} }}]\nexempt: [api_key:later]",
        file.display()
    );
    warned(&with(&text), ":3:10: there is no API key called `later`");
}

#[test]
fn a_plan_with_members_is_somebodys() {
    let text =
        format!("{LIMIT}plans: {{ b: {{ members: [10.0.0.0/8], a: unlimited }} }}\nalways: [a]");
    assert_eq!(warnings(&with(&text)), "");
}
