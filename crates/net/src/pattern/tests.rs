use super::*;

use crate::path::normalize;

fn path(text: &str) -> PathPattern {
    PathPattern::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refusal(text: &str) -> String {
    match PathPattern::parse(text) {
        Ok(pattern) => panic!("{text} was accepted as {pattern:?}"),
        Err(error) => error.to_string(),
    }
}

/// Spellings of one path, with the numbers of `path/tests.rs`. Each spelling matches, is refused, or is another path for all servers.
#[test]
fn no_spelling_of_a_path_escapes_its_route() {
    let login = path("/api/login");
    let meets = |raw: &str| {
        normalize(raw, EncodedSlashes::Reject)
            .ok()
            .map(|path| login.matches(&path))
    };
    for raw in [
        "/api/login",
        "/api//login",  // P1
        "/api/./login", // P2
        "/api/x/../login",
        "/x/%2e%2e/api/login",
        "/api/%6cogin",   // P4
        "/api/login/",    // P6
        "/api/login;v=1", // P7
        "/api;a=b/login;v=1/",
        "/;a/api/;b/login/;c",
    ] {
        assert_eq!(meets(raw), Some(true), "{raw}");
    }
    for raw in [
        "/api%2flogin", // P3
        "/api%5clogin",
        "/api\\login",
        "/api/x/..;/login",
        "/api/login#f",  // P9
        "/api/login%00", // P10
        "/api/login%0a",
        "/api/login%zz",
        "/api/login%c0%af",
    ] {
        assert_eq!(meets(raw), None, "{raw}");
    }
    for raw in [
        "/API/login",    // P5
        "/api/login%20", // P10
        "/api/login%252f",
        "//host/api/login", // P12
        "/api/login%3fx",   // P13
        "/api/login%3bx",
        "/api/login/x",
        "/api",
        "/",
    ] {
        assert_eq!(meets(raw), Some(false), "{raw}");
    }
}

#[test]
fn a_name_is_one_segment_and_the_rest_may_be_none() {
    let ride = path("/rides/{id}/stops/{stop}");
    assert!(ride.matches("/rides/42/stops/7"));
    assert!(ride.matches("/rides/42;v=1/stops/7/"));
    assert!(!ride.matches("/rides/42/stops/"));
    assert!(!ride.matches("/rides/;id/stops/7"));
    assert!(!ride.matches("/rides/42/stops/7/8"));

    let files = path("/files/**");
    for matched in ["/files", "/files/", "/files/a", "/files/a/b/", "/files;v=1"] {
        assert!(files.matches(matched), "{matched}");
    }
    for missed in ["/", "/file", "/filesystem", "/a/files"] {
        assert!(!files.matches(missed), "{missed}");
    }

    assert!(path("/").matches("/") && path("/").matches("/;jsessionid=1"));
    assert!(!path("/").matches("/a"));
    assert!(path("/**").matches("/") && path("/**").matches("/a/b"));
    assert!(path("/a/").matches("/a") && path("/a/").matches("/a/"));
}

#[test]
fn escaped_and_bare_are_one_to_route_and_key() {
    assert!(path("/users/@me").matches("/users/%40me"));
    assert!(path("/a%20b").matches("/a%20b"));
    assert!(!path("/a+b").matches("/a%20b"));
    let otp = path("/otp/{phone}");
    assert_eq!(
        otp.capture("/otp/%2B491234", "phone").as_deref(),
        Some("+491234")
    );
}

#[test]
fn a_capture_is_the_segment_without_its_parameters() {
    let ride = path("/rides/{id}/stops/{stop}/**");
    let at = "/rides/42;v=1/;x/stops/7/8/9";
    assert_eq!(ride.capture(at, "id").as_deref(), Some("42"));
    assert_eq!(ride.capture(at, "stop").as_deref(), Some("7"));
    assert_eq!(ride.capture(at, "rides"), None);
    assert_eq!(ride.capture("/rides/42", "stop"), None);
    assert!(matches!(ride.capture(at, "id"), Some(Cow::Borrowed(_))));
}

#[test]
fn a_pattern_is_displayed_as_it_was_written() {
    for text in [
        "/",
        "/**",
        "/api/rides/{id}",
        "/files/**",
        "/a/",
        "/a%20b/%C3%BC/%3B/%2F",
    ] {
        assert_eq!(path(text).to_string(), text);
    }
}

#[test]
fn a_refused_path_is_told_what_is_allowed() {
    for text in ["", "api", "*", "{id}", "http://a/b"] {
        assert_eq!(refusal(text), "a path starts with `/`", "{text}");
    }
    for (text, reason) in [
        ("/a?b", "`?` cannot be part of a path"),
        ("/a#b", "`#` cannot"),
        ("/a;b", "`;` cannot"),
        ("/**/a", "only in a final `/**`"),
        ("/a/*", "only in a final `/**`"),
        ("/a**", "only in a final `/**`"),
        ("/{**}", "only in a final `/**`"),
        (
            "/img-{id}.png",
            "`img-{id}.png` is not allowed: `{name}` is a whole segment",
        ),
        ("/{}", "`{}` is not allowed"),
        ("/{a-b}", "letters, digits and `_`"),
        ("/{a}{b}", "whole segment"),
        ("/{a", "whole segment"),
        ("/{a}/b/{a}", "`{a}` is in the path twice"),
        ("//a", "a path has no empty, `.` or `..` segments"),
        ("//", "a path has no empty, `.` or `..` segments"),
        ("/a/../b", "a path has no empty, `.` or `..` segments"),
        ("/a/%2e", "a path has no empty, `.` or `..` segments"),
        ("/%6cogin", "write `login` here"),
        ("/%c3%bc", "write `%C3%BC` here"),
        ("/a|b", "write `a%7Cb` here"),
        ("/(a|b)/c", "a path is no regular expression"),
        ("/a/.*", "no regular expression"),
        ("/a/[0-9]", "no regular expression"),
        ("/a\\d", "no regular expression"),
        ("^/a", "no regular expression"),
        ("~ ^/a", "no regular expression"),
        ("/a\\b", "the path has a backslash"),
        ("/%40me", "write `@me` here"),
        (
            "/über",
            "no request can match: the path has a character outside ASCII",
        ),
        ("/a b", "no request can match"),
        ("/a%zz", "no request can match"),
    ] {
        let refusal = refusal(text);
        assert!(refusal.contains(reason), "{text}: {refusal}");
    }
}

#[test]
fn a_path_covers_what_it_hides() {
    for (one, other) in [
        ("/a", "/a"),
        ("/a", "/a/"),
        ("/{x}", "/a"),
        ("/{x}", "/{y}"),
        ("/**", "/"),
        ("/**", "/a/**"),
        ("/a/**", "/a"),
        ("/a/**", "/a/{x}/**"),
        ("/{x}/**", "/a/b"),
    ] {
        assert!(path(one).covers(&path(other)), "{one} covers {other}");
    }
    for (one, other) in [
        ("/a", "/A"),
        ("/a", "/{x}"),
        ("/a", "/a/**"),
        ("/a", "/a/b"),
        ("/{x}", "/"),
        ("/a/**", "/**"),
        ("/a/**", "/{x}/b"),
        ("/a/{x}/**", "/a/**"),
        ("/a/b", "/a"),
    ] {
        assert!(
            !path(one).covers(&path(other)),
            "{one} does not cover {other}"
        );
    }
}

/// Compares `covers` with `matches`, for every short path of two literals and one other name.
#[test]
fn covering_agrees_with_matching() {
    let lists = |words: &[&str], longest: usize| {
        let mut all = vec![String::new()];
        let mut from = 0;
        for _ in 0..longest {
            let to = all.len();
            for at in from..to {
                all.extend(
                    words
                        .iter()
                        .map(|word| format!("{}/{word}", all[at]))
                        .collect::<Vec<_>>(),
                );
            }
            from = to;
        }
        all
    };
    let paths: Vec<String> = lists(&["a", "b", "other"], 4)
        .iter()
        .map(|path| format!("{path}/"))
        .collect();
    let patterns: Vec<PathPattern> = lists(&["a", "b", "{}"], 3)
        .iter()
        .flat_map(|text| [format!("{text}/"), format!("{text}/**")])
        .map(|text| {
            let mut names = ["{x}", "{y}", "{z}"].into_iter();
            let named = text
                .split("{}")
                .map(str::to_owned)
                .reduce(|text, after| format!("{text}{}{after}", names.next().unwrap()));
            path(&named.unwrap())
        })
        .collect();
    for one in &patterns {
        for other in &patterns {
            let truly = paths
                .iter()
                .all(|path| !other.matches(path) || one.matches(path));
            assert_eq!(one.covers(other), truly, "{one} and {other}");
        }
    }
}

#[test]
fn a_pattern_may_ignore_case_and_dots_at_the_end() {
    let login = path("/API/Login/{Id}/**").ignoring_case();
    assert_eq!(login.to_string(), "/API/Login/{Id}/**");
    for same in [
        "/api/login/X",
        "/API/LOGIN/x",
        "/Api./login../x;v=1/rest/",
        "/api;v/login.;w/x",
    ] {
        assert!(login.matches(same), "{same}");
        assert_eq!(login.capture(same, "Id").as_deref(), Some("x"), "{same}");
        assert_eq!(login.capture(same, "id"), None);
    }
    for other in [
        "/api/login",
        "/.api/login/x",
        "/api/log.in/x",
        "/api/login%20/x",
    ] {
        assert!(!login.matches(other), "{other}");
    }
    // Both sides are compared in plain form.
    let plus = path("/A+B").ignoring_case();
    assert!(plus.matches("/a%2Bb."));
    assert!(path("/{x}").ignoring_case().matches("/..."));
    assert_eq!(caseless("..."), "...");
    assert_eq!(caseless("A.b.."), "a.b");
    assert_eq!(caseless("%C3%84."), "%c3%84");
}

#[test]
fn a_pattern_that_ignores_case_covers_all_that_do_not() {
    let (exact, upper) = (path("/a/{x}"), path("/A/{x}"));
    let either = path("/A/{x}").ignoring_case();
    for other in [&exact, &upper, &either, &path("/a./b")] {
        assert!(either.covers(other), "{other}");
    }
    assert!(!exact.covers(&either) && !upper.covers(&either) && !exact.covers(&upper));
    assert!(path("/{x}/**").covers(&either));
    assert!(!either.covers(&path("/b/{x}")));
    assert_eq!(path("/A").ignoring_case().begins(&either), Some(1));
    assert_eq!(path("/a").begins(&either), None);
}
