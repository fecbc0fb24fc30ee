use super::*;
use crate::tests::{bad, good};
use crate::value::Fault;

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
fn names_have_no_blanks() {
    bad::<KeyName>(&["", "a b", "a\tb"]);
}

#[test]
fn a_hash_is_not_told() {
    let scalar = Scalar::<KeyHash>::new("hunter2".into(), None);
    let problem = Fault::Form.problem(&scalar, false);
    assert!(!format!("{problem:?}").contains("hunter2"));
}
