//! Notes for errors about unknown keys that other proxies have, or that belong to another place in the file.

/// Each entry has unknown keys, an allowed key, and a note. An error about such an unknown key gets the note only at a place where the
/// allowed key may stand.
const NOTES: [(&[&str], &str, &str); 16] = [
    (
        &["tls", "ssl", "https"],
        "listen",
        "TLS belongs to an address: `listen: { address: \"0.0.0.0:443\", tls: { cert: FILE, key: FILE } }`",
    ),
    (
        &["port", "bind", "address", "host", "server", "http"],
        "listen",
        "`listen` has the address and the port, such as `listen: 0.0.0.0:8080`",
    ),
    (
        &["redis"],
        "store",
        "Redis is a store: `store: { redis: { url: \"redis://127.0.0.1:6379\" } }`",
    ),
    (
        &["upstream", "backend", "proxy_pass", "service", "target"],
        "routes",
        "a route has an upstream: `routes: [{ path: /**, upstream: \"http://127.0.0.1:9000\" }]`",
    ),
    (
        &["rate", "rate_limit", "rate_limits", "ratelimit"],
        "limits",
        "a limit has a name: `limits: { per-client: { token_bucket: { capacity: 20, refill: 10/s } } }`, and a route lists it",
    ),
    (
        &["log_level", "logging", "access_log"],
        "log",
        "the log is `log: { level: info, format: json, access: … }`",
    ),
    (
        &[
            "allowlist",
            "whitelist",
            "denylist",
            "blocklist",
            "blacklist",
        ],
        "exempt",
        "`allow` lists the only clients that are let through, `deny` those that are refused, `exempt` those without limits",
    ),
    (
        &[
            "rewrite",
            "rewrite_path",
            "rewrite_target",
            "prefix_rewrite",
            "url_rewrite",
            "path_rewrite",
            "replace_path",
            "replace_prefix",
            "strip_path",
        ],
        "strip_prefix",
        "did you mean `strip_prefix`? It removes the first segments of a path, such as `strip_prefix: /api`; other changes of paths are not possible",
    ),
    (
        &["prefix", "match", "location", "uri", "paths", "path_prefix"],
        "strip_prefix",
        "`path` has the path of a route, such as `path: /api/**`",
    ),
    (
        &["read", "write", "send", "client", "body"],
        "slow",
        "`header` bounds a request's head, `slow` a client that sends or reads too slowly, `upstream` the wait for an answer",
    ),
    (
        &["keepalive", "keep_alive"],
        "idle",
        "`idle` bounds how long a connection without a request stays open",
    ),
    (
        &["interval"],
        "unhealthy_after",
        "`every` is the time between two checks",
    ),
    (
        &["hostname", "headers", "authority"],
        "unhealthy_after",
        "`host` is the Host of a check",
    ),
    (
        &["mode", "scheme", "service", "service_name"],
        "unhealthy_after",
        "`grpc: {}` checks by gRPC, and `grpc: { service: shop.Cart }` checks one service",
    ),
    (
        &["healthy_threshold", "unhealthy_threshold"],
        "unhealthy_after",
        "`healthy_after` and `unhealthy_after` are the numbers of answers in a row",
    ),
    (
        &[
            "sticky",
            "hash",
            "hash_policy",
            "lb_policy",
            "load_balancing",
            "session_affinity",
        ],
        "balance",
        "sticky sessions are `balance: { hash: client }`, or `balance: { cookie: NAME }` with a cookie of the gateway",
    ),
];

/// Returns a note on an unknown key. `allowed` are the keys that may stand in its place.
pub(crate) fn unknown_key(key: &str, allowed: &[&str]) -> Option<&'static str> {
    // YAML reads `{ capacity: 1,000 }` as the keys `capacity` and `000`.
    if key.len() == 3 && key.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some("a number has no commas: write 1000 for 1,000");
    }
    if key == "<<" {
        return Some(
            "merge keys are not read: write the keys out; an alias stands for a whole value, such as `limits: *usual`",
        );
    }
    if key.starts_with("x-") {
        return Some("extension keys are not read: an anchor stands at the first use of its value");
    }
    let fitting = NOTES.iter().find(|(keys, place, _)| {
        keys.iter().any(|other| other.eq_ignore_ascii_case(key)) && allowed.contains(place)
    });
    fitting.map(|(_, _, note)| *note)
}

#[cfg(test)]
mod tests {
    use super::unknown_key;

    #[test]
    fn a_note_depends_on_the_place_of_the_key() {
        let note = |key, allowed: &[&str]| unknown_key(key, allowed).unwrap_or_default();
        assert!(note("TLS", &["listen", "admin"]).contains("listen: {"));
        assert!(note("read", &["header", "slow"]).contains("`slow`"));
        assert!(note("000", &["capacity", "refill"]).contains("no commas"));
        assert!(note("<<", &["path"]).contains("merge keys"));
        assert!(note("x-defaults", &["routes"]).contains("anchor"));
        assert!(note("Rewrite", &["path", "strip_prefix"]).contains("`strip_prefix`"));
        for (key, place) in [("tls", "path"), ("read", "listen"), ("lisen", "listen")] {
            assert_eq!(unknown_key(key, &[place]), None, "{key} at {place}");
        }
    }
}
