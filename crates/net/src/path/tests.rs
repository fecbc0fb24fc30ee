use std::borrow::Cow;

use http::Uri;

use super::EncodedSlashes::{Keep, Reject};
use super::*;

fn normal(raw: &str) -> Result<String, PathError> {
    normalize(raw, Reject).map(Cow::into_owned)
}

fn kept(raw: &str) -> Result<String, PathError> {
    normalize(raw, Keep).map(Cow::into_owned)
}

#[track_caller]
fn becomes(raw: &str, expected: &str) {
    assert_eq!(normal(raw).as_deref(), Ok(expected), "{raw}");
    assert_eq!(kept(raw).as_deref(), Ok(expected), "{raw}");
}

#[track_caller]
fn refused(raw: &str, error: PathError) {
    assert_eq!(normal(raw), Err(error), "{raw}");
    assert_eq!(kept(raw), Err(error), "{raw}");
}

#[test]
fn a_normal_path_is_given_back_without_an_allocation() {
    for path in [
        "/",
        "/api/rides/42",
        "/api/rides/",
        "/.well-known/...",
        "/..a/.a/a..",
        "/api/login;v=1",
        "/a%20b/%C3%BC/%25zz/%3F",
        "/-._~!$&'()*+,;=:@",
    ] {
        let same = normalize(path, Reject);
        assert!(matches!(same, Ok(Cow::Borrowed(_))), "{path}: {same:?}");
    }
    let same = normalize("/a%2Fb%5C", Keep);
    assert!(matches!(same, Ok(Cow::Borrowed(_))), "{same:?}");
}

/// Spellings of one path. The tests of patterns have the same numbers P1 to P13.
#[test]
fn the_spellings_of_one_path_are_one() {
    becomes("/api//login", "/api/login"); // P1
    becomes("//api///login", "/api/login");
    becomes("/api/./login", "/api/login"); // P2
    becomes("/api/x/../login", "/api/login");
    becomes("/x/%2e%2e/api/login", "/api/login");
    becomes("/x/.%2E/api/%2e/login", "/api/login");
    becomes("/api/%6cogin", "/api/login"); // P4
    becomes("/api/%6C%6fgin", "/api/login");
    becomes("/API/login", "/API/login"); // P5
    becomes("/api/login/", "/api/login/"); // P6
    becomes("/api/login;v=1", "/api/login;v=1"); // P7
    becomes("/api/login%20", "/api/login%20"); // P10
    becomes("/api/login%252f", "/api/login%252f");
    becomes("/api/login%25%36%63", "/api/login%256c");
    becomes("/api/login%3fx", "/api/login%3Fx"); // P13
}

/// P8, P9, P11, P12: the path of a target as the crate `http` parses it.
#[test]
fn a_target_gives_the_path_that_it_means() {
    let path = |target: &str| normal(target.parse::<Uri>().unwrap().path());
    assert_eq!(path("/api/login?x=/../%zz").as_deref(), Ok("/api/login"));
    assert_eq!(path("/api/login#f").as_deref(), Ok("/api/login"));
    assert_eq!(path("http://host/api/./login").as_deref(), Ok("/api/login"));
    assert_eq!(path("http://host").as_deref(), Ok("/"));
    assert_eq!(path("//host/api/login").as_deref(), Ok("/host/api/login"));
    assert_eq!(path("/api\\login"), Err(PathError::Backslash));
    assert_eq!(path("*"), Err(PathError::Relative));
    assert_eq!(path("host:443"), Err(PathError::Relative));
}

#[test]
fn dot_segments_end_at_the_root() {
    becomes("/..", "/");
    becomes("/../../a", "/a");
    becomes("/a/..", "/");
    becomes("/a/b/..", "/a/");
    becomes("/a/b/../..", "/");
    becomes("/a/.", "/a/");
    becomes("/a//../b", "/b");
    becomes("/a/b;c/../d", "/a/d");
    becomes("/a/.../b", "/a/.../b");
}

#[test]
fn dot_segments_with_parameters_are_refused() {
    for raw in ["/a/..;/b", "/a/..;x=1", "/.;/a", "/a/%2e%2E;/b", "/a/./.;"] {
        refused(raw, PathError::DotParameters);
    }
    becomes("/a/...;x/b", "/a/...;x/b");
    becomes("/a/...%3b/b", "/a/...%3B/b");
}

#[test]
fn encoded_slashes_are_refused_or_kept() {
    for (raw, with_keep) in [
        ("/api%2flogin", "/api%2Flogin"), // P3
        ("/api%5clogin", "/api%5Clogin"),
        ("/api%2Flogin", "/api%2Flogin"),
        ("/a/b%2fc/..", "/a/"),
        ("/a/..b%2f.c", "/a/..b%2F.c"),
    ] {
        assert_eq!(normal(raw), Err(PathError::EncodedSlash), "{raw}");
        assert_eq!(kept(raw).as_deref(), Ok(with_keep), "{raw}");
    }
}

#[test]
fn a_dot_segment_does_not_hide_in_escapes() {
    for raw in [
        "/a/..%2fb",
        "/a/%2e%2E%5Cb",
        "/a/b%2F..",
        "/a/b%2F./c",
        "/a/b%2F..;v%2Fc",
        "/a/b%5c..%3bv",
        "/a/..%2fb%252f",
    ] {
        assert_eq!(normal(raw), Err(PathError::EncodedSlash), "{raw}");
        assert_eq!(kept(raw), Err(PathError::HiddenDots), "{raw}");
    }
    // Dot segments that appear after several decodings are refused in both modes.
    for raw in [
        "/a/%252e%252e/b",
        "/a/%252E",
        "/a/.%25252E/b",
        "/a/..%252fb",
        "/a/..%25255cb",
        "/a/b%252F%252e%252e%3Bv",
        "/a/..%3b/b",
        "/a/%2e%3Bv",
        "/a/..%253Bv/b",
        "/a/%25%32e%252e",
    ] {
        refused(raw, PathError::HiddenDots);
    }
    for same in [
        "/a/..b%252F.c",
        "/a/%252e%252eb",
        "/a/..%25",
        "/a/...%252F",
        "/a/50%25",
        "/a/http%253A%252F%252Fexample.com%252F",
    ] {
        becomes(same, same);
    }
    // For deeply nested escapes, the work is bounded by the length of the path.
    becomes(
        &format!("/{}2e", "%25".repeat(1_000)),
        &format!("/{}2e", "%25".repeat(1_000)),
    );
}

#[test]
fn what_has_no_safe_spelling_is_refused() {
    for (raw, error) in [
        ("/api\\login", PathError::Backslash),  // P3
        ("/api/login#f", PathError::Character), // P9
        ("/api/login?x", PathError::Character),
        ("/api/lo gin", PathError::Character),
        ("/api/login\0", PathError::Character),
        ("/api/login\x7f", PathError::Character),
        ("/api/lögin", PathError::NotAscii),
        ("/api/login%00", PathError::EncodedControl), // P10
        ("/api/login%0a", PathError::EncodedControl),
        ("/api/login%1F", PathError::EncodedControl),
        ("/api/login%7f", PathError::EncodedControl),
        ("/api/login%zz", PathError::BrokenEscape),
        ("/api/login%2", PathError::BrokenEscape),
        ("/api/login%", PathError::BrokenEscape),
        ("/api/login%2/f", PathError::BrokenEscape),
        ("/api/login%+1", PathError::BrokenEscape),
        ("/api/login%6ö", PathError::BrokenEscape),
        ("/api/login%c0%af", PathError::NotUtf8),
        ("/api/login%C1", PathError::NotUtf8),
        ("/api/login%f5", PathError::NotUtf8),
        ("/api/login%FF", PathError::NotUtf8),
        ("/api/login%e0%80%af", PathError::NotUtf8),
        ("/api/login%E0%9F%BF", PathError::NotUtf8),
        ("/api/login%F0%80%80%AF", PathError::NotUtf8),
        ("/api/login%F0%8f%bf%bf", PathError::NotUtf8),
        ("", PathError::Relative),
        ("*", PathError::Relative),
        ("api/login", PathError::Relative),
    ] {
        refused(raw, error);
    }
    becomes(
        "/%e0%a0%80%f0%90%80%80%f0%9f%9A%80",
        "/%E0%A0%80%F0%90%80%80%F0%9F%9A%80",
    );
}

#[test]
fn characters_that_no_uri_holds_are_escaped() {
    becomes("/\"<>[]^`{|}", "/%22%3C%3E%5B%5D%5E%60%7B%7C%7D");
}

#[test]
fn what_may_be_escaped_or_not_is_plainly_one() {
    for (part, expected) in [
        ("%2B49", "+49"),
        ("%40me%21", "@me!"),
        ("a%20b", "a%20b"),
        ("%252B", "%252B"),
        ("%3Bv", "%3Bv"),
        ("%2F", "%2F"),
    ] {
        assert_eq!(plain(part), expected);
        assert!(is_plainly(part, expected));
    }
    assert!(!is_plainly("%2B49", "%2B49"));
    assert!(matches!(plain("a%20b"), Cow::Borrowed(_)));
}

/// Tests every path of a slash and up to five pieces. The pieces form every combination that matters.
#[test]
fn normalising_twice_changes_nothing() {
    const PIECES: [&str; 11] = [
        "/", ".", "%2e", ";", "a", "%", "2", "e", "%25", "%2f", "%c3",
    ];
    let mut accepted = 0;
    let mut paths = vec![String::from("/")];
    for _ in 0..5 {
        paths = paths
            .iter()
            .flat_map(|path| PIECES.map(|piece| format!("{path}{piece}")))
            .collect();
        for raw in &paths {
            accepted += usize::from(holds(raw, Reject)) + usize::from(holds(raw, Keep));
        }
    }
    assert!(accepted > 100_000, "{accepted}");
}

/// Tests longer paths of random bytes, from a linear congruential generator.
#[test]
fn normalising_anything_twice_changes_nothing() {
    let mut state = 42_u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    let mut accepted = 0;
    for _ in 0..200_000 {
        let mut raw = String::from("/");
        for _ in 0..random(16) {
            match random(4) {
                0 => raw.push_str(["/", "/./", "/../", "//", "%2E", "..;"][random(6) as usize]),
                1 => raw.push_str(&format!("%{:02x}", random(256))),
                2 => raw.push(char::from(random(128) as u8)),
                _ => raw.push(char::from(b'a' + random(26) as u8)),
            }
        }
        accepted += usize::from(holds(&raw, Reject)) + usize::from(holds(&raw, Keep));
    }
    assert!(accepted > 10_000, "{accepted}");
}

/// Checks the rules for each normal form. Returns whether the path was accepted.
fn holds(raw: &str, slashes: EncodedSlashes) -> bool {
    let Ok(path) = normalize(raw, slashes) else {
        return false;
    };
    let again = normalize(&path, slashes);
    assert!(
        matches!(again, Ok(Cow::Borrowed(same)) if same == path),
        "{raw}: {path}, {again:?}"
    );
    assert_eq!(matches!(path, Cow::Borrowed(_)), path == raw, "{raw}");

    assert!(
        path.starts_with('/') && !path.contains("//"),
        "{raw}: {path}"
    );
    for segment in path.split('/') {
        let name = segment.split(';').next();
        assert!(!matches!(name, Some("." | "..")), "{raw}: {path}");
    }
    assert_eq!(octets(&path), resolved(raw), "{raw}");
    true
}

/// Normalises a path by another implementation: decoded segments on a stack. A separator becomes 256. An escaped reserved character becomes
/// its code plus 512.
fn resolved(raw: &str) -> Vec<u16> {
    let mut stack: Vec<Vec<u16>> = Vec::new();
    let mut open = true;
    for segment in raw.split('/').skip(1) {
        let segment = octets(segment);
        open = segment.is_empty() || segment == [46] || segment == [46, 46];
        if segment == [46, 46] {
            stack.pop();
        } else if !open {
            stack.push(segment);
        }
    }
    let mut path: Vec<u16> = stack
        .into_iter()
        .flat_map(|segment| [vec![256], segment].concat())
        .collect();
    if open {
        path.push(256);
    }
    path
}

fn octets(text: &str) -> Vec<u16> {
    let bytes = text.as_bytes();
    let mut octets = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'/' => octets.push(256),
            b'%' => {
                let byte = u16::from_str_radix(&text[at + 1..at + 3], 16).unwrap();
                let reserved =
                    u8::try_from(byte).is_ok_and(|byte| b"!$&'()*+,;=:@/".contains(&byte));
                octets.push(if reserved { 512 + byte } else { byte });
                at += 2;
            }
            byte => octets.push(u16::from(byte)),
        }
        at += 1;
    }
    octets
}

#[test]
fn an_error_repeats_nothing_of_the_path() {
    let error = normal("/SECRET%zz").unwrap_err();
    assert!(!error.to_string().contains("SECRET"));
}

#[test]
fn names_are_decoded_once() {
    for (part, name) in [
        ("api_key:acme", Some("api_key:acme")),
        ("user_id:a%2Fb%20%C3%bc", Some("user_id:a/b ü")),
        ("%2525", Some("%25")),
        ("a+b", Some("a+b")),
        ("%", None),
        ("a%2", None),
        ("%+1x", None),
        ("%ff", None),
    ] {
        assert_eq!(decoded_part(part).as_deref(), name, "{part}");
    }
}
