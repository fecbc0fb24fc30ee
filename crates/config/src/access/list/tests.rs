use super::*;
use crate::tests::{bad, good};

#[test]
fn entries_are_networks_addresses_or_clients() {
    for text in [
        "10.0.0.0/8",
        "192.0.2.1",
        "fd00::/8",
        "2001:db8::1",
        "api_key:acme",
        "user_id:42",
        "user_id:a user@example.com",
    ] {
        let ListedText(client) = good(text);
        assert_eq!(client.to_string(), text);
    }
    bad::<ListedText>(&[
        "",
        "10.0.0.1/8",
        "api_key:",
        "api_key:a b",
        "user_id:",
        "user_id:a\nb",
        "ip:192.0.2.1",
        "ip:192.0.2.0/24",
        "user:42",
        "example.com",
        "acme",
    ]);
}

#[test]
fn what_may_be_a_key_is_not_shown() {
    for hidden in ["tg_4bb9F0", "Hunter2", "c48a01f49fd0f2cc404bc3cbbc80e914"] {
        assert!(may_be_secret(hidden), "{hidden}");
    }
    for shown in ["10.0.0.0/33", "2001:db8::/129", "user:42", "monitor"] {
        assert!(!may_be_secret(shown), "{shown}");
    }
}
