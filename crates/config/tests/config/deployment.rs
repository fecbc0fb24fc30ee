//! What looks wrong with where a gateway runs: behind a proxy, on all addresses, beside other gateways; and a path that is
//! probably a prefix.

use super::*;

const LIMIT: &str = "limits: { a: { fixed_window: { limit: 1, window: 1s } } }\nalways: [a]\n";

#[track_caller]
fn silent(text: &str) {
    assert_eq!(warnings(text), "");
}

#[test]
fn all_addresses_without_a_word_on_proxies() {
    let on = |listen: &str| with(&format!("{LIMIT}listen: {listen}\n"));
    let expected = ":4:9: `trusted_proxies` is not set";
    for all in [
        "0.0.0.0:8080",
        "\"[::]:8080\"",
        "{ address: 0.0.0.0:8080 }",
        "[127.0.0.1:80, 0.0.0.0:8080]",
    ] {
        warned(&on(all), expected);
    }
    let all = on("0.0.0.0:8080");
    silent(&on("10.1.2.3:8080"));
    silent(&format!("{all}trusted_proxies: []"));
    silent(&format!("{all}trusted_proxies: [10.0.0.0/8]"));
    // A limit that counts nobody's address does not need it.
    silent(&all.replace("1s } }", "1s }, per: [route] }"));
}

#[test]
fn an_admin_port_that_is_open() {
    let on = |admin: &str| with(&format!("{LIMIT}admin: {admin}\n"));
    let expected = ":4:8: the admin port is open on all addresses";
    warned(&on("0.0.0.0:9901"), expected);
    warned(&on("{ address: \"[::]:9901\" }"), expected);
    silent(&on("{ address: 0.0.0.0:9901, token: k7-Vq+0pE-k7-Vq+0pE }"));
    silent(&on("127.0.0.2:9901"));
}

#[test]
fn secrets_that_can_be_guessed() {
    let admin = |token: &str| with(&format!("{LIMIT}admin: {{ token: {token} }}\n"));
    warned(
        &admin("hunter2-hunter2"),
        "this token is short enough to be guessed",
    );
    not_warned(&admin("hunter2-hunter2"), "hunter2");
    silent(&admin("hunter2-hunter2-"));
    silent(&admin("\"\""));
    let secret = with(&format!("{LIMIT}secret: hunter2\n"));
    warned(&secret, "this secret is short enough to be guessed");
}

#[test]
fn gateways_that_do_not_know_of_each_other_without_redis() {
    let redis = |more: &str| {
        with(&format!(
            "{LIMIT}secret: hunter2-hunter2-hunter2\nstore: {{ redis: {{ url: \"redis://127.0.0.1\"{more} }} }}\n"
        ))
    };
    let expected = ":5:24: `gateways` is not set";
    warned(&redis(""), expected);
    warned(&redis(""), "the whole quota of `a`");
    warned(&redis(", on_failure: local"), expected);
    for said in [
        ", gateways: 4",
        ", gateways: auto",
        ", on_failure: closed",
        ", mode: local",
    ] {
        silent(&redis(said));
    }
}

#[test]
fn a_path_that_looks_like_a_prefix() {
    let routes = |paths: &[&str]| {
        let route = |path: &&str| format!("  - {{ path: \"{path}\", upstream: http://h }}\n");
        let routes: String = paths.iter().map(route).collect();
        format!("{LIMIT}routes:\n{routes}")
    };
    for (path, below) in [
        ("/api", "/api/**"),
        ("/api/", "/api/**"),
        ("/shop/API", "/shop/API/**"),
        ("/v2", "/v2/**"),
        ("/", "/**"),
    ] {
        warned(&routes(&[path]), ":4:13: the route");
        warned(&routes(&[path]), &format!("`{below}` matches"));
    }
    for meant in [
        &["/api/**"][..],
        &["/api/rides"],
        &["/{name}"],
        &["/vehicles"],
        &["/v"],
        &["/api", "/api/**"],
        &["/v1/rides", "/v1"],
        &["/", "/rides"],
    ] {
        silent(&routes(meant));
    }
}
