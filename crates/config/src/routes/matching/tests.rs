use super::*;
use crate::tests::{bad, good};

#[test]
fn methods_are_in_capitals() {
    assert_eq!(good::<Method>("PURGE").as_str(), "PURGE");
    bad::<Method>(&["", "get", "GET POST", "CONNECT", "G\u{e9}T"]);
}

#[test]
fn names_have_no_control_characters() {
    good::<RouteName>("GET /api/{id}");
    bad::<RouteName>(&["", "a\nb"]);
}
