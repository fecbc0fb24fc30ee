//! Keys of routes that do something else than they seem to say. The sound form of each has no warning.

use super::mistakes::{LIMITS, compare, of_file, of_route};
use super::*;

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
        format!("{LIMITS}timeouts: {{}}\nroutes:\n  - {wider}\n  - {stricter}\n")
    };
    let wider = "path: \"/api/{x}\", case_insensitive: false, limits: [b], methods: ";
    for part in [
        "the route `GET,POST /api/{x}` takes GET, POST, HEAD of `/api/login` without its limit `a`",
        ":4:35: ",
        "put `/api/login` (gateway.yaml:5:13) first",
    ] {
        warned(&of(&format!("{wider}[GET, POST]"), login), part);
    }
    let get = login.replace("upstream", "methods: [GET, POST], upstream");
    let taken = "takes GET, HEAD of `GET,POST /api/login`";
    warned(&of(&format!("{wider}[GET]"), &get), taken);
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
        not_warned(&of(&wider, &stricter), "takes");
    }
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

/// The host of a request may be none that a server on the internet has.
#[test]
fn the_host_that_servers_of_other_names_get_is_explained() {
    let hosts = |upstream: &str, more: &str| {
        let text = format!("routes: [{{ path: /**, upstream: \"{upstream}\"{more} }}]");
        let mut lines = String::new();
        settings(&text).routes[0].explain(&mut lines).unwrap();
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
