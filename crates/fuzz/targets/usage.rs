//! Checks that the number that `BodyReader` finds does not depend on the parts in which a body arrives. If the body is valid JSON,
//! serde_json must find the same number.
//!
//! The first byte of an input chooses the kind of body. The second byte is the length of the parts, in bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use oracle::AtPath;
use serde::de::DeserializeSeed as _;
use tidegate_usage::{BodyReader, JsonPath};

#[path = "../../usage/tests/oracle/mod.rs"]
mod oracle;

const PATH: [&str; 2] = ["a", "b"];

fuzz_target!(|data: &[u8]| {
    let [kind, size, body @ ..] = data else {
        return;
    };
    let (content_type, encoding) = match kind % 4 {
        0 => ("application/json", ""),
        1 => ("text/event-stream", ""),
        2 => ("application/json", "gzip"),
        _ => ("text/event-stream", "gzip"),
    };
    let found = |size: usize| {
        let path: JsonPath = PATH.join(".").parse().expect("a path");
        let mut reader = BodyReader::new(content_type, encoding, [path]).expect("readable");
        body.chunks(size).for_each(|part| reader.read(part));
        reader.found(0)
    };
    let whole = found(usize::MAX);
    assert_eq!(found(1), whole, "byte by byte");
    assert_eq!(
        found(usize::from(*size).max(1)),
        whole,
        "in parts of {size}"
    );
    if kind % 4 == 0 {
        agrees(body, whole);
    }
    if kind % 4 == 1 && !body.starts_with(b"data:") && !contains(body, b"data:") {
        assert_eq!(whole, None, "no event has data");
    }
});

fn contains(body: &[u8], text: &[u8]) -> bool {
    body.windows(text.len()).any(|window| window == text)
}

/// Requires that serde_json finds the same number, if it can parse the whole body.
fn agrees(body: &[u8], whole: Option<u64>) {
    let mut json = serde_json::Deserializer::from_slice(body);
    let oracle = AtPath {
        path: &PATH,
        fraction: differs,
    };
    let Ok(expected) = oracle.deserialize(&mut json) else {
        return;
    };
    if json.end().is_ok() {
        let expected = expected.map(|number| number.min(1 << 52));
        assert_eq!(whole.map(|number| number.min(1 << 52)), expected);
    }
}

/// Excludes positive fractions and large numbers from the comparison, because both readers round them differently. A negative number counts
/// as missing.
fn differs(number: f64) -> Result<Option<u64>, &'static str> {
    match number.is_sign_positive() {
        true => Err("rounded differently"),
        false => Ok(None),
    }
}
