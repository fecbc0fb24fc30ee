use super::*;
use crate::value::tests::{bad, good};

#[test]
fn limits_count_per_what_has_a_name() {
    assert_eq!(good::<Per>("api_key"), Per::ApiKey);
    bad::<Per>(&["", "API_KEY", "cookie"]);
}
