use super::*;
use crate::tests::{bad, good};

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
