//! Keys and numbers of limits that do something else than they seem to say. The sound form of each has no warning.

use super::mistakes::{compare, of_file};

/// A limit that is always charged.
const FRAME: &str = "limits: { a: { … } }\nalways: [a]\nroutes: [{ path: /**, upstream: \"http://127.0.0.1:9000\" }]\n";

#[test]
fn blocks_that_one_client_starts_for_all() {
    let of = |rest: &str| format!("sliding_window_log: {{ limit: 100, window: 1m }}, {rest}");
    let all = "one client can have all others refused\n";
    let [
        nothing,
        extended,
        route,
        method,
        ip,
        client,
        header,
        observed,
        unblocked,
    ] = [
        "per: [], block: 15m",
        "per: [], block: 15m, extend: true",
        "per: [route], block: 15m",
        "per: [route, method], block: 15m",
        "per: [ip], block: 15m",
        "block: 15m",
        "per: [route, ip], block: 15m",
        "per: [], block: 15m, action: observe",
        "per: [route]",
    ]
    .map(of);
    compare(
        FRAME,
        &[
            (&nothing, ":1:80: one client can have all others refused\n"),
            (&extended, all),
            (&route, all),
            (&method, all),
            (&ip, ""),
            (&client, ""),
            (&header, ""),
            (&observed, ""),
            (&unblocked, ""),
        ],
    );
    compare(
        FRAME,
        &[("concurrency: { limit: 4 }, per: [], block: 15m", "")],
    );
}

#[test]
fn numbers_that_admit_less_or_later_than_they_seem_to() {
    let months = "do not begin with a month\n";
    compare(
        FRAME,
        &[
            (
                "token_bucket: { capacity: 1, refill: 100/s }",
                ":1:42: this bucket admits no more than 1 at once\n",
            ),
            (
                "token_bucket: { capacity: 10, refill: 6000/m }",
                "no more than 10 at once",
            ),
            // Bounds of a whole service.
            ("token_bucket: { capacity: 500, refill: 5000/s }", ""),
            (
                "token_bucket: { capacity: 1, refill: 100/s }, action: observe",
                "",
            ),
            ("token_bucket: { capacity: 100, refill: 100/s }", ""),
            ("token_bucket: { capacity: 1, refill: 9/s }", ""),
            (
                "token_bucket: { capacity: 1, refill: 100/s }, action: { delay: { max: 1s } }",
                "",
            ),
            (
                "leaky_bucket: { queue: 1, drain: 5/s }",
                ":1:39: no request waits in a queue of 1\n",
            ),
            ("leaky_bucket: { queue: 1, drain: 5/s, nodelay: true }", ""),
            ("leaky_bucket: { queue: 2, drain: 5/s }", ""),
            ("fixed_window: { limit: 9, window: 28d }", months),
            (
                "fixed_window: { limit: 9, window: 30d }",
                ":1:50: windows of 30d",
            ),
            ("fixed_window: { limit: 9, window: 31d }", months),
            ("fixed_window: { limit: 9, window: 7d }", ""),
            ("fixed_window: { limit: 9, window: 1mo }", ""),
            ("sliding_window_counter: { limit: 9, window: 30d }", ""),
            (
                "concurrency: { limit: 4, lease: 10m }",
                ":1:48: a gateway that dies keeps its holds for 10m\n",
            ),
            ("concurrency: { limit: 4, lease: 1m }", ""),
        ],
    );
}

#[test]
fn windows_that_end_before_counts_arrive() {
    let redis = "secret: hunter2-hunter2-hunter2\nstore: { redis: { gateways: 2, url: \"redis://redis\", sync_every: 10s, mode: synced } }\n";
    let frame = format!("{redis}{FRAME}");
    let late = "the counts of other gateways arrive too late for this window\n";
    compare(
        &frame,
        &[
            ("fixed_window: { limit: 9, window: 20s }", late),
            (
                "sliding_window_counter: { limit: 9, window: 1s }",
                ":3:60: the counts",
            ),
            ("fixed_window: { limit: 9, window: 21s }", ""),
        ],
    );
    compare(
        &frame
            .replace("mode: synced }", "mode: exact }")
            .replace("sync_every: 10s, ", ""),
        &[
            (
                "fixed_window: { limit: 9, window: 200ms }, mode: synced",
                late,
            ),
            ("fixed_window: { limit: 9, window: 1s }, mode: synced", ""),
            ("fixed_window: { limit: 9, window: 200ms }", ""),
        ],
    );
    // A limit's own interval in place of the store's.
    compare(
        &frame.replace("sync_every: 10s, ", ""),
        &[
            (
                "fixed_window: { limit: 9, window: 2s }, sync_every: 1s",
                late,
            ),
            (
                "fixed_window: { limit: 9, window: 2s }, sync_every: 999ms",
                "",
            ),
            (
                "fixed_window: { limit: 9, window: 9m }, mode: exact, sync_every: 1s",
                ":3:81: `sync_every` has no effect here\n",
            ),
        ],
    );
    let alone = frame.replace("gateways: 2", "gateways: 1");
    compare(&alone, &[("fixed_window: { limit: 9, window: 1s }", "")]);
}

#[test]
fn values_that_no_source_of_clients_names() {
    let of = |per: &str| format!("token_bucket: {{ capacity: 9, refill: 1/s }}, per: [{per}]");
    let note =
        |sources: &str| format!("list {sources} under `clients`, or write `client` in its place\n");
    compare(
        FRAME,
        &[
            (&of("user_id"), &note("`user_id` or `jwt`")),
            (&of("api_key"), &note("`api_key`")),
            (&of("client_cert"), &note("`client_cert`")),
            (&of("client"), ""),
        ],
    );
}

#[test]
fn budgets_per_client_and_address() {
    let frame = "
limits:
  a: { token_bucket: { capacity: 9, refill: 1/s }, per: … }
clients: [{ api_key: { keys: [{ name: x, hash: \"sha256:c48a01f49fd0f2cc404bc3cbbc80e91457a3d41bb429a695243de4c61794155c\" }] } }, { ip: {} }]
routes: [{ path: /**, upstream: \"http://127.0.0.1:9000\", limits: [a] }]
";
    let pair = "each pair of `api_key` and `ip` has a budget\n";
    compare(
        frame,
        &[
            ("[api_key, ip]", pair),
            ("[ip, api_key]", pair),
            (
                "[route, client, ip/48]",
                "each pair of `client` and `ip/48`",
            ),
            ("[api_key]", ""),
            ("[ip, route]", ""),
        ],
    );
    let other = "\n  b: { token_bucket: { capacity: 9, refill: 1/s } }\n  a:";
    let both = frame.replace("\n  a:", other).replace("[a]", "[a, b]");
    compare(&both, &[("[api_key, ip]", "")]);
}

#[test]
fn limits_whose_waits_help_no_client() {
    compare(
        "limits: { a: { … } }\nalways: [a]\nroutes: [{ path: /**, upstream: \"http://h\" }]",
        &[
            (
                "leaky_bucket: { queue: 20, drain: 10/m }",
                ":1:39: the last place in this queue waits 2m",
            ),
            (
                "leaky_bucket: { queue: 20, drain: 10/m, nodelay: true }",
                "",
            ),
            ("leaky_bucket: { queue: 10, drain: 10/m }", ""),
            (
                "token_bucket: { capacity: 1, refill: 1/m }, action: { delay: { max: 500ms } }",
                "`max: 500ms` hardly ever lets a request wait",
            ),
            (
                "token_bucket: { capacity: 20, refill: 10/m }, action: { delay: { max: 10ms } }",
                "one unit takes 6s to come back",
            ),
            (
                "token_bucket: { capacity: 1, refill: 1/s }, action: { delay: { max: 500ms } }",
                "",
            ),
            (
                "token_bucket: { capacity: 9, refill: 9/s }, per: [ip/24]",
                "`ip/24` counts IPv6 by networks of 24 bits",
            ),
            (
                "token_bucket: { capacity: 9, refill: 9/s }, per: [ip/48]",
                "",
            ),
        ],
    );
    compare(
        &of_file(),
        &[
            (
                "clients: [{ ip: { ipv6_prefix: 32 } }]",
                "`ipv6_prefix: 32` counts IPv6 by networks of 32 bits",
            ),
            ("clients: [{ ip: { ipv6_prefix: 56 } }]", ""),
        ],
    );
}

#[test]
fn events_that_one_client_can_cause() {
    let of = |per: &str| {
        format!("fixed_window: {{ limit: 10, window: 1h }}, per: [{per}], notify: {{ at: [80%] }}")
    };
    let guard = "b: { token_bucket: { capacity: 50, refill: 50/s }, per: [ip] }";
    let frame = FRAME.replace("{ … } }", &format!("{{ … }}, {guard} }}"));
    let frame = frame.replace("always: [a]", "always: [a, b]");
    compare(
        &frame,
        &[
            (&of("client"), ""),
            (&of("ip"), "the events of this limit name no client\n"),
            (
                &of("client, \"header:x-app\""),
                "clients choose the `header:x-app` of their requests\n",
            ),
        ],
    );
}
