//! What looks wrong but would start.

use super::*;

#[track_caller]
fn warned(text: &str, expected: &str) {
    let (_, warnings) = parse(text).unwrap_or_else(|error| panic!("{error}"));
    let all: String = warnings
        .iter()
        .map(|warning| format!("{warning}\n"))
        .collect();
    assert!(all.contains(expected), "{all}");
}

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
fn redis_without_a_secret() {
    warned(&with(REDIS), "warning: gateway.yaml: there is no `secret`");
    let empty = format!("{REDIS}secret: \"${{NOTHING:-}}\"");
    warned(&with(&empty), ":3:9: there is no `secret`");
}

#[test]
fn users_that_nobody_vouches_for() {
    warned(
        &with("clients: [{ user_id: {} }]"),
        ":2:11: this source never names anybody",
    );
}

#[test]
fn what_is_counted_per_something_that_no_source_names() {
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
    assert_eq!(parse(&with(&always)).unwrap().1, []);
}
