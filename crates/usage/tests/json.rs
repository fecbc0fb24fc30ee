//! What is found in random documents is what serde_json finds, in whatever parts they come.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod oracle;

use oracle::AtPath;
use proptest::collection::vec;
use proptest::prelude::*;
use serde::Deserialize as _;
use serde::de::DeserializeSeed as _;
use tidegate_usage::{BodyReader, JsonPath};

/// A fraction counts as the next whole number.
fn rounded_up(number: f64) -> Result<Option<u64>, &'static str> {
    let counts = number >= 0.0 && number.is_sign_positive();
    Ok(counts.then(|| number.ceil() as u64))
}

/// What serde_json finds; an error if the text is not JSON.
fn expected(path: &[&str], text: &str) -> serde_json::Result<Option<u64>> {
    let mut json = serde_json::Deserializer::from_str(text);
    let fraction = rounded_up;
    let found = AtPath { path, fraction }.deserialize(&mut json)?;
    json.end()?;
    Ok(found)
}

/// What is found if the text comes in parts of these sizes, again and again.
fn found(path: &[&str], text: &[u8], sizes: &[usize]) -> Option<u64> {
    let path: JsonPath = path.join(".").parse().unwrap();
    let mut reader = BodyReader::new("application/json", "", [path]).unwrap();
    let mut rest = text;
    for size in sizes.iter().cycle() {
        let (part, next) = rest.split_at((*size).min(rest.len()));
        reader.read(part);
        rest = next;
        if rest.is_empty() {
            break;
        }
    }
    reader.found(0)
}

/// Keys, many of which lead somewhere.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => prop_oneof!["a", "b"].prop_map(|key| format!("\"{key}\"")),
        1 => prop_oneof![Just("\"\\u0061\""), Just("\"\\u0062\"")].prop_map(str::to_owned),
        2 => any::<String>().prop_map(|key| serde_json::to_string(&key).unwrap()),
    ]
}

fn space() -> impl Strategy<Value = String> {
    prop_oneof![4 => Just(String::new()), 1 => "[ \t\r\n]{1,3}"]
}

/// JSON of every shape, objects with some keys twice included.
fn json() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        6 => (0..1_u64 << 53).prop_map(|number| number.to_string()),
        1 => (-9_i64..0).prop_map(|number| number.to_string()),
        1 => "-?(0|[1-9][0-9]{0,3})\\.[0-9]{1,3}([eE][+-]?[0-9])?",
    ];
    let leaf = prop_oneof![
        6 => number,
        1 => prop_oneof![Just("null"), Just("true"), Just("false")].prop_map(str::to_owned),
        2 => any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    leaf.prop_recursive(6, 60, 6, |inner| {
        let value = (space(), inner, space());
        let value = value.prop_map(|(before, value, behind)| format!("{before}{value}{behind}"));
        let value = value.boxed();
        let entry = (space(), key(), space(), value.clone());
        let entry =
            entry.prop_map(|(before, key, behind, value)| format!("{before}{key}{behind}:{value}"));
        prop_oneof![
            3 => vec(entry, 0..6).prop_map(|all| format!("{{{}}}", all.join(","))),
            1 => vec(value, 0..4).prop_map(|all| format!("[{}]", all.join(","))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_is_found_is_what_serde_json_finds(
        text in json(),
        path in prop::sample::select(vec![&["a"][..], &["a", "b"], &["b", "a", "a"]]),
        sizes in vec(1..40_usize, 1..5),
    ) {
        let expected = expected(path, &text).unwrap();
        prop_assert_eq!(found(path, text.as_bytes(), &[usize::MAX]), expected);
        prop_assert_eq!(found(path, text.as_bytes(), &sizes), expected);
    }

    /// A text that is cut off or damaged: what is found does not depend on its parts, and is not made up.
    #[test]
    fn what_is_broken_is_found_alike_in_all_parts(
        text in json(),
        at in any::<prop::sample::Index>(),
        other in prop::option::of(any::<u8>()),
        sizes in vec(1..40_usize, 1..5),
    ) {
        let mut text = text.into_bytes();
        let at = at.index(text.len());
        match other {
            Some(other) => text[at] = other,
            None => text.truncate(at),
        }
        let path = &["a", "b"][..];
        let whole = found(path, &text, &[usize::MAX]);
        prop_assert_eq!(found(path, &text, &sizes), whole);
        if let Some(Ok(expected)) = std::str::from_utf8(&text).ok().map(|text| expected(path, text)) {
            prop_assert_eq!(whole, expected);
        }
    }
}

/// The finder that the tests trust is right where that is plain to see.
#[test]
fn the_reference_finds_the_largest_number() {
    let text = r#"{"a":{"b":1,"b":2,"b":0,"c":3},"a":{"b":"x"},"b":4}"#;
    assert_eq!(expected(&["a", "b"], text).unwrap(), Some(2));
    assert_eq!(expected(&["a"], text).unwrap(), None);
    assert!(expected(&["a"], "{").is_err());
    assert!(String::deserialize(&mut serde_json::Deserializer::from_str("1")).is_err());
}
