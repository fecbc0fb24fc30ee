//! Keys that are read, and do something else than they seem to say: each has a warning with its remedy, and its sound form has none.

use super::*;

const LIMITS: &str = "limits: { a: { token_bucket: { capacity: 9, refill: 1/s } }, b: { token_bucket: { capacity: 9, refill: 1/s } } }\n";

/// All warnings of a configuration.
fn warnings(text: &str) -> String {
    let (_, warnings) = parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    warnings.iter().map(|it| format!("{it}\n")).collect()
}

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
fn of_route(more: &str) -> String {
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
fn slips_in_methods() {
    compare(
        &of_route(""),
        &[
            ("methods: [PSOT]", "`PSOT` is no registered method\n"),
            ("methods: [GET, POTS]", "did you mean `POST`?"),
            ("methods: [PURGE]", ""),
            ("methods: [LIST, QUERY, PROPFIND, M-SEARCH, LINK]", ""),
            (
                "cors: { origins: [\"*\"], methods: [GTE] }",
                "`GTE` is no registered method",
            ),
        ],
    );
}

#[test]
fn names_in_the_style_of_other_routers() {
    compare(
        &of_route("").replace("/x/y", "…").replace(", … }", " }"),
        &[
            ("/users/:id/x", "`:id` matches only these letters"),
            ("/users/:id", "is written `{id}`"),
            ("/v1/items:batch", ""),
            ("/at/:80", ""),
        ],
    );
}

#[test]
fn retries_that_leave_no_time() {
    let long = "`retries.timeout` (10s) is not below `timeouts.upstream` (1s)";
    compare(
        &of_route("timeouts: { upstream: 1s }\n"),
        &[
            ("retries: { attempts: 3, timeout: 10s }", long),
            ("retries: { attempts: 3, timeout: 1s }", "such as 250ms"),
            ("retries: { attempts: 3, timeout: 999ms }", ""),
            ("retries: { attempts: 3 }", ""),
            (
                "retries: { attempts: 3, timeout: 10s }, timeouts: { upstream: 11s }",
                "",
            ),
        ],
    );
}

#[test]
fn methods_of_a_stricter_route_that_a_wider_one_takes() {
    let login = "{ path: /api/login, upstream: \"http://h\", limits: [a, b] }";
    let of = |wider: &str, stricter: &str| {
        let wider = format!("{{ upstream: \"http://h\", {wider} }}");
        warnings(&format!(
            "{LIMITS}timeouts: {{}}\nroutes:\n  - {wider}\n  - {stricter}\n"
        ))
    };
    let wider = "path: \"/api/{x}\", case_insensitive: false, limits: [b], methods: ";
    let told = of(&format!("{wider}[GET, POST]"), login);
    assert!(
        told.contains(
            "the route `GET,POST /api/{x}` takes GET, POST, HEAD of `/api/login` without its limit `a`"
        ),
        "{told}"
    );
    assert!(told.contains(":4:35: "), "{told}");
    assert!(
        told.contains("put `/api/login` (gateway.yaml:5:13) first"),
        "{told}"
    );
    let get = login.replace("upstream", "methods: [GET, POST], upstream");
    let told = of(&format!("{wider}[GET]"), &get);
    assert!(
        told.contains("takes GET, HEAD of `GET,POST /api/login`"),
        "{told}"
    );
    for (wider, stricter) in [
        // Reads by one route, and the rest by another.
        (format!("{wider}[GET]"), login.to_owned()),
        (
            format!("{wider}[POST]").replace("{x}", "login"),
            login.to_owned(),
        ),
        (
            format!("{wider}[GET, POST]").replace("[b]", "[a, b]"),
            login.to_owned(),
        ),
        (format!("{wider}[GET, POST], host: a.com"), login.to_owned()),
        (
            format!("{wider}[GET, POST], query: {{ x: y }}"),
            login.to_owned(),
        ),
        (
            format!("{wider}[GET, POST]").replace("/api", "/web"),
            login.to_owned(),
        ),
        (format!("{wider}[DELETE]"), get),
    ] {
        let told = of(&wider, &stricter);
        assert!(!told.contains("takes"), "{wider}: {told}");
    }
}

#[test]
fn keys_that_have_expired() {
    let hash = "c48a01f49fd0f2cc404bc3cbbc80e91457a3d41bb429a695243de4c61794155c";
    let frame = of_file();
    let frame = frame.replace(
        '…',
        &format!("clients: [{{ api_key: {{ keys: [{{ hash: \"sha256:{hash}\", … }}] }} }}]"),
    );
    compare(
        &frame,
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
fn signs_that_mean_something_to_other_proxies() {
    let of = |sign: &str| format!("`{sign}` is sent as it is");
    compare(
        &of_route(""),
        &[
            (
                "request_headers: { set: { X-C: $remote_addr } }",
                &of("$remote_addr"),
            ),
            (
                "request_headers: { set: { X-C: \"%REQ(:path)%\" } }",
                &of("%REQ("),
            ),
            ("response_headers: { set: { X-C: \"%[src]\" } }", &of("%[")),
            (
                "request_headers: { set: { X-C: \"Bearer $(TOKEN)\" } }",
                &of("$("),
            ),
            (
                "request_headers: { set: { X-C: \"100% of {a} for $5\" } }",
                "",
            ),
            (
                "request_has: { X-Beta: \"*\" }",
                "`*` is compared letter by letter",
            ),
            (
                "request_has: { User-Agent: \"curl.*\" }",
                "`*` is compared letter by letter",
            ),
            ("query: { key: \"k*\" }", "`*` is compared letter by letter"),
            (
                "query: { q: a%20b }",
                "this value is compared without escapes",
            ),
            ("request_has: { Accept: \"*/*\" }", ""),
            ("request_has: { Accept: \"text/*\" }", ""),
            ("query: { q: \"100%\", r: 2 * 3 }", ""),
        ],
    );
    compare(
        &of_file(),
        &[("response_headers: { set: { X-C: $host } }", &of("$host"))],
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
        let plan = plan(&with(&format!("trusted_proxies: [\"{text}\"]")));
        assert!(
            plan.clients.trusted.contains([10, 1, 2, 3].into()),
            "{text}"
        );
        assert!(
            !plan.clients.trusted.contains([11, 1, 2, 3].into()),
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
fn redirects_without_tls() {
    let expected = "no request counts as https here";
    let redirect = [("redirect: https", expected)];
    compare(&of_route(""), &redirect);
    compare(&of_route("trusted_proxies: []\n"), &redirect);
    compare(
        &of_route("trusted_proxies: [10.0.0.1]\n"),
        &[("redirect: https", "")],
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

#[test]
fn headers_of_the_file_that_a_route_replaces() {
    let of_file = "response_headers: { set: { Strict-Transport-Security: max-age=9, X-Frame-Options: DENY } }\n";
    let lost = "answers of this route do not get `strict-transport-security`\n";
    compare(
        &of_route(of_file),
        &[
            ("", ""),
            (
                "response_headers: { set: { x-frame-options: SAMEORIGIN } }",
                lost,
            ),
            (
                "response_headers: { remove: [Server] }",
                "do not get `strict-transport-security`, `x-frame-options`",
            ),
            (
                "response_headers: { set: { X-Frame-Options: DENY }, remove: [Strict-Transport-Security] }",
                "",
            ),
        ],
    );
}

/// Each source of one header sees the credentials of the other, and may reject them.
#[test]
fn sources_that_reject_what_another_source_reads() {
    let hash = "c48a01f49fd0f2cc404bc3cbbc80e91457a3d41bb429a695243de4c61794155c";
    let [api_key, jwt] = [
        &format!("{{ api_key: {{ keys: [{{ name: x, hash: \"sha256:{hash}\" }}] KEY }} }}"),
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
fn hosts_that_another_host_gets_around() {
    let strict =
        "host: shop.example.com, path: /api/login, case_insensitive: false, limits: [a, b]";
    let frame = format!(
        "{LIMITS}routes:\n  - {{ {strict}, upstream: \"http://h\" }}\n  - {{ upstream: \"http://h\", … }}\n"
    );
    let expected = "the route `/**` takes `shop.example.com/api/login` under any other host, without its limit `a`\n";
    compare(
        &frame,
        &[
            ("path: /**, limits: [b]", ":4:35: the route"),
            ("path: /**, limits: [b]", expected),
            (
                "path: \"/api/{x}\", limits: [b]",
                "the route `/api/{x}` takes",
            ),
            ("path: /**, limits: [a, b]", ""),
            ("path: /web/**, limits: [b]", ""),
            ("path: /**, host: shop.example.com, limits: [b]", ""),
            ("path: /**, query: { x: y }, limits: [b]", ""),
        ],
    );
    // Limits of a tenant, and the default of all others.
    let tenant = frame.replace("path: /api/login", "path: /**");
    compare(
        &tenant,
        &[("path: /**, limits: [b]", "without its limit `a`")],
    );
    let third = ", c: { token_bucket: { capacity: 9, refill: 1/s } } }\n";
    let tenant = tenant.replacen(" }\n", third, 1);
    compare(&tenant, &[("path: /**, limits: [c]", "")]);
    let other = frame.replace("upstream: \"http://h\", …", "upstream: \"http://i\", …");
    compare(&other, &[("path: /**, limits: [b]", "")]);
    let post = frame.replace("limits: [a, b]", "methods: [POST], limits: [a, b]");
    compare(
        &post,
        &[
            ("path: /**, methods: [GET], limits: [b]", ""),
            (
                "path: /**, methods: [PUT, POST], limits: [b]",
                "without its limit `a`",
            ),
        ],
    );
    let below = frame
        .replace("host: shop.", "host: \"*.")
        .replace("example.com,", "example.com\",");
    compare(
        &below,
        &[("path: /**, limits: [b]", "takes `*.example.com/api/login`")],
    );
    let whole = frame.replace("path: /api/login", "path: /**");
    compare(
        &whole,
        &[("path: /**, limits: [b]", "takes `shop.example.com/**`")],
    );
    let line = format!("  - {{ {strict}, upstream: \"http://h\" }}\n");
    let more = line.replace("shop.", "www.");
    compare(
        &frame.replace(&line, &format!("{line}{more}")),
        &[(
            "path: /**, limits: [b]",
            "without its limit `a`; and 1 more route\n",
        )],
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
fn idle_times_that_end_no_tunnel() {
    let idle = "`idle` does not end tunnels\n";
    let rows = [
        ("upgrade: [websocket], timeouts: { idle: 1h }", idle),
        (
            "upgrade: [websocket], timeouts: { idle: 1h, tunnel_idle: 1h }",
            "",
        ),
        ("upgrade: [websocket], timeouts: { upstream: 1h }", ""),
        ("timeouts: { idle: 1h }", ""),
    ];
    compare(&of_route(""), &rows);
    let of_file = of_route("timeouts: { tunnel_idle: 1h }\n");
    compare(&of_file, &[(rows[0].0, "")]);
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

/// The host of a request may be none that a server on the internet has.
#[test]
fn the_host_that_servers_of_other_names_get_is_explained() {
    let hosts = |upstream: &str, more: &str| {
        let text = format!("routes: [{{ path: /**, upstream: \"{upstream}\"{more} }}]");
        let mut lines = String::new();
        plan(&text).routes[0].explain(&mut lines).unwrap();
        let lines = lines.lines().filter(|line| line.starts_with("host:"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let kept = ["host:     the client's; `upstream_host: upstream` sends the server's"];
    assert_eq!(hosts("https://shop.example.net", ""), kept);
    let sent = hosts("https://shop.example.net", ", upstream_host: upstream");
    assert_eq!(sent, ["host:     the server's own"]);
    for upstream in [
        "http://127.0.0.1:9000",
        "http://shop",
        "https://203.0.113.7",
    ] {
        assert_eq!(hosts(upstream, ""), [""; 0], "{upstream}");
    }
}
