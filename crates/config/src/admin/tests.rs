use super::*;
use crate::tests::{bad, good};

#[test]
fn tokens_are_what_a_header_can_carry() {
    assert!(good::<TokenText>("").0.is_none());
    bad::<TokenText>(&["two words", "tab\t", "é"]);
}
