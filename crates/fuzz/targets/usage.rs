//! Bodies of answers, whatever they are: what is found does not depend on the parts in which they come, and is what serde_json finds
//! where that takes them for JSON.
//!
//! The first byte of an input says what kind of body it is, the second how long its parts are.

#![no_main]

use std::fmt;

use libfuzzer_sys::fuzz_target;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tidegate_usage::BodyReader;

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
        let paths = [PATH.join(".").parse().expect("a path")];
        let mut reader = BodyReader::new(content_type, encoding, paths).expect("readable");
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

/// Where serde_json reads the body to its end, it finds the same.
fn agrees(body: &[u8], whole: Option<u64>) {
    let mut json = serde_json::Deserializer::from_slice(body);
    let Ok(expected) = AtPath(&PATH).deserialize(&mut json) else {
        return;
    };
    if json.end().is_ok() {
        let expected = expected.map(|number| number.min(1 << 52));
        assert_eq!(whole.map(|number| number.min(1 << 52)), expected);
    }
}

/// Finds the last number at a path. What is not whole, or too large to be exact, is given up as an error.
struct AtPath<'a>(&'a [&'a str]);

impl<'de> DeserializeSeed<'de> for AtPath<'_> {
    type Value = Option<u64>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<u64>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AtPath<'_> {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Option<u64>, E> {
        Ok(self.0.is_empty().then_some(number))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Option<u64>, E> {
        Ok(None)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Option<u64>, E> {
        match self.0.is_empty() && number.is_sign_positive() {
            true => Err(E::custom("rounded differently")),
            false => Ok(None),
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<Option<u64>, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Option<u64>, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Option<u64>, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Option<u64>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<u64>, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            match self.0.split_first() {
                Some((name, rest)) if *name == key => {
                    found = map.next_value_seed(AtPath(rest))?.or(found);
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}
