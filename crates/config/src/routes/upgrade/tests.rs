use super::*;
use crate::tests::{bad, good};

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
