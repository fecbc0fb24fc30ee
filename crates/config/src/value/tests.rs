use std::net::SocketAddr;
use std::time::Duration;

use http::{HeaderName, Method};
use tidegate_core::Rate;
use tidegate_tower::Per;

use super::number::{Connections, Count};
use super::word::LimitName;
use super::*;
use crate::admin::TokenText;
use crate::bounds::{BodyLimit, MemoryLimit};
use crate::clients::Network;
use crate::clients::ip::PrefixLength;
use crate::clients::keys::{KeyHash, KeyName};
use crate::routes::matching::RouteName;
use crate::routes::upgrade::Protocol;
use crate::store::SecretText;
use crate::store::redis::{KeyPrefix, RedisUrl};
use crate::upstreams::server::{Server, ServerScheme, Target};

#[track_caller]
fn good<T: Value>(text: &str) -> T {
    T::read(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}"))
}

#[track_caller]
fn bad<T: Value>(texts: &[&str]) {
    for text in texts {
        assert!(T::read(text).is_err(), "{text} is not {}", T::WHAT);
    }
}

#[test]
fn durations_have_a_unit() {
    for (text, millis) in [
        ("25ms", 25),
        ("60s", 60_000),
        ("15m", 900_000),
        ("1h", 3_600_000),
        ("1d", 86_400_000),
        ("31d", 31 * 86_400_000),
    ] {
        assert_eq!(good::<Duration>(text), Duration::from_millis(millis));
    }
    bad::<Duration>(&[
        "",
        "60",
        "s",
        "0s",
        "0ms",
        "-1s",
        "+1s",
        "1.5s",
        "1 s",
        "1S",
        "1s ",
        "1us",
        "1mo",
        "32d",
        "99999999999999999999d",
        "18446744073709551615d",
        "1h30m",
        "１s",
    ]);
}

#[test]
fn rates_are_so_many_per_so_long() {
    for (text, count, per) in [
        ("10/s", 10, 1_000_000),
        ("600/m", 600, 60_000_000),
        ("1000/h", 1_000, 3_600_000_000),
        ("5000/d", 5_000, 86_400_000_000),
        ("100/15m", 100, 900_000_000),
        ("1/1ms", 1, 1_000),
        ("1/ms", 1, 1_000),
        ("1000000000/31d", 1_000_000_000, 31 * 86_400_000_000),
    ] {
        assert_eq!(good::<Rate>(text), Rate { count, per });
    }
    bad::<Rate>(&[
        "",
        "10",
        "/s",
        "10/",
        "10 / s",
        "0/s",
        "10/0s",
        "-1/s",
        "1/2/s",
        "1.5/s",
        "1000000001/s",
        "99999999999999999999/s",
        "1/32d",
        "1/99999999999999999999d",
        "10/week",
    ]);
}

#[test]
fn sizes_are_none_or_bytes_or_have_a_unit() {
    assert_eq!(good::<BodyLimit>("none").0, None);
    for (text, bytes) in [
        ("0", 0),
        ("1000", 1_000),
        ("512KB", 512 << 10),
        ("10MB", 10 << 20),
        ("1GB", 1 << 30),
    ] {
        assert_eq!(good::<BodyLimit>(text).0, Some(bytes));
    }
    bad::<BodyLimit>(&[
        "",
        "None",
        "10mb",
        "10 MB",
        "MB",
        "-1",
        "1.5MB",
        "17179869184GB",
        "99999999999999999999",
    ]);
}

#[test]
fn counts_are_digits_and_too_many_is_the_most_there_is() {
    assert_eq!(good::<Count>("7").0, 7);
    assert_eq!(good::<Count>("99999999999999999999").0, u64::MAX);
    bad::<Count>(&[
        "", "-1", "+1", "1e3", "1_000", "0x10", "1.0", " 1", "ten", "007",
    ]);
}

#[test]
fn addresses_have_a_port() {
    assert_eq!(good::<SocketAddr>("[::1]:80").port(), 80);
    bad::<SocketAddr>(&[
        "8080",
        ":8080",
        "localhost:80",
        "127.0.0.1",
        "127.0.0.1:65536",
    ]);
}

#[test]
fn networks_are_addresses_or_have_a_prefix_that_fits() {
    assert_eq!(good::<Network>("10.0.0.0/8").0.to_string(), "10.0.0.0/8");
    assert_eq!(good::<Network>("192.0.2.1").0.to_string(), "192.0.2.1/32");
    assert_eq!(good::<Network>("::1").0.to_string(), "::1/128");
    bad::<Network>(&[
        "",
        "10.0.0.0/33",
        "10.0.0.1/8",
        "10/8",
        "example.com",
        "[::1]",
    ]);
}

#[test]
fn servers_are_http_urls_without_a_path() {
    for (text, scheme) in [
        ("http://127.0.0.1:9000", ServerScheme::Http),
        ("http://rides", ServerScheme::Http),
        ("http://[::1]:80/", ServerScheme::Http),
        ("HTTP://rides:1", ServerScheme::Http),
        ("https://rides", ServerScheme::Https),
        ("h2c://rides:80", ServerScheme::H2c),
    ] {
        assert_eq!(good::<Server>(text).scheme, scheme, "{text}");
    }
    bad::<Server>(&[
        "",
        "rides",
        "127.0.0.1:9000",
        "h2://rides",
        "http://",
        "http://:80",
        "http://rides:",
        "http://rides:0",
        "http://rides:65536",
        "http://rides/api",
        "http://rides?a",
        "http://a@rides",
        "http://a b",
        "ftp://rides",
        "http://[::1]x",
    ]);
    assert_eq!(good::<Target>("rides"), Target::Named("rides".into()));
    assert!(matches!(good::<Target>("http://rides"), Target::Server(_)));
    bad::<Target>(&["rides:80", "/rides", "ws://rides"]);
}

#[test]
fn protocols_are_what_an_upgrade_header_names() {
    for (text, name) in [
        ("websocket", "websocket"),
        ("WebSocket", "websocket"),
        ("SPDY/3.1", "spdy/3.1"),
    ] {
        assert_eq!(good::<Protocol>(text).0, name);
    }
    bad::<Protocol>(&["", "h2c", "H2C", "a b", "websocket/", "/13", "a,b"]);
}

#[test]
fn hashes_are_64_digits() {
    let digits = "00ff".repeat(16);
    assert_eq!(
        good::<KeyHash>(&format!("sha256:{digits}")).0[..2],
        [0, 255]
    );
    let short = format!("sha256:{}", &digits[..63]);
    let signed = format!("sha256:+f{}", &digits[2..]);
    bad::<KeyHash>(&[
        "",
        "sha256:",
        &digits,
        &short,
        &signed,
        &format!("sha512:{digits}"),
    ]);
}

#[test]
fn methods_are_in_capitals() {
    assert_eq!(good::<Method>("PURGE").as_str(), "PURGE");
    bad::<Method>(&["", "get", "GET POST", "CONNECT", "G\u{e9}T"]);
}

#[test]
fn words_and_names() {
    assert_eq!(good::<Per>("api_key"), Per::ApiKey);
    bad::<Per>(&["", "API_KEY", "cookie"]);
    assert_eq!(good::<HeaderName>("X-API-Key"), "x-api-key");
    bad::<HeaderName>(&["", "X API"]);
    good::<LimitName>("ride-burst.v2_x");
    bad::<LimitName>(&["", "a b", "a/b", "a:b", "{a}", "é", &"a".repeat(129)]);
    good::<RouteName>("GET /api/{id}");
    bad::<RouteName>(&["", "a\nb"]);
    bad::<KeyName>(&["", "a b", "a\tb"]);
    bad::<KeyPrefix>(&["", "{a}", "a b"]);
    assert!(good::<SecretText>("").0.is_none());
    assert!(good::<TokenText>("").0.is_none());
    bad::<TokenText>(&["two words", "tab\t", "é"]);
    assert!(!good::<bool>("false"));
    bad::<bool>(&["yes", "True", ""]);
    bad::<PrefixLength>(&["0", "129", "256"]);
    bad::<Connections>(&["0", "1000001"]);
    assert_eq!(good::<MemoryLimit>("none").0, None);
    assert_eq!(good::<MemoryLimit>("64MB").0, Some(64 << 20));
    bad::<MemoryLimit>(&["0", "63MB", "65535KB", "512", "512mb", "17179869184GB"]);
}

#[test]
fn secrets_are_not_told() {
    let scalar = Scalar::<RedisUrl>::new("redis://:hunter2@h".into(), None);
    assert!(!format!("{scalar:?}").contains("hunter2"));
    let scalar = Scalar::<KeyHash>::new("hunter2".into(), None);
    let problem = Fault::Form.problem(&scalar, false);
    assert!(!format!("{problem:?}").contains("hunter2"));
    let secret = good::<SecretText>("hunter2").0.unwrap();
    assert!(!format!("{secret:?}").contains("hunter2"));
    assert_eq!(secret.expose(), "hunter2");
}
