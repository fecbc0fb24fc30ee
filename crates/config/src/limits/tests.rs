use super::*;
use crate::tests::{bad, good};

#[test]
fn limits_count_per_what_has_a_name() {
    assert_eq!(good::<Per>("api_key"), Per::ApiKey);
    assert_eq!(good::<Per>("query:user id"), Per::Query("user id".into()));
    assert_eq!(good::<Per>("claim:org.id"), Per::Claim("org.id".into()));
    bad::<Per>(&[
        "",
        "API_KEY",
        "cookie",
        "query",
        "query:",
        "claim:",
        "claim:a b",
    ]);
}
