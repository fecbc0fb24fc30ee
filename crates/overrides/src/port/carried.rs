//! Reads conditions and bodies from requests about overrides.

use std::fmt;

use bytes::Bytes;
use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue};
use serde::de::{DeserializeOwned, Deserializer, SeqAccess, Visitor};

use super::MOST;
use super::answers::{Refusal, bad};
use crate::api::Wanted;
use crate::change::Expected;

/// A list of at most [`MOST`] requested overrides. A longer list is refused while it is parsed, because a small body can contain very many
/// elements.
#[derive(Debug, serde::Deserialize)]
pub(super) struct Load {
    #[serde(deserialize_with = "at_most")]
    pub(super) overrides: Vec<Wanted>,
}

fn at_most<'de, D: Deserializer<'de>>(list: D) -> Result<Vec<Wanted>, D::Error> {
    struct Bounded;
    impl<'de> Visitor<'de> for Bounded {
        type Value = Vec<Wanted>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of overrides")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(one) = list.next_element()? {
                if all.len() == MOST {
                    let error = "at most 10000 overrides may be set at once";
                    return Err(serde::de::Error::custom(error));
                }
                all.push(one);
            }
            Ok(all)
        }
    }
    list.deserialize_seq(Bounded)
}

/// The reason why an override is cleared.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reason {
    #[serde(default)]
    pub(super) reason: String,
}

/// Reads from `If-Match` or `If-None-Match` which override must be in force.
pub(super) fn expected(headers: &HeaderMap) -> Result<Expected, Refusal> {
    // A repeated header is refused, because `get` would ignore its second value.
    let is_twice = |name| headers.get_all(name).iter().nth(1).is_some();
    if is_twice(IF_MATCH) || is_twice(IF_NONE_MATCH) {
        return Err(bad("a change may have one condition"));
    }
    match (headers.get(IF_MATCH), headers.get(IF_NONE_MATCH)) {
        (None, None) => Ok(Expected::Any),
        (None, Some(any)) if any == "*" => Ok(Expected::Nothing),
        (Some(value), None) => version(value).map(Expected::Version).ok_or_else(|| {
            bad("If-Match is the ETag of an override, such as \"1795854600123456\"")
        }),
        _ => Err(bad(
            "a change may have If-Match with a version, or If-None-Match: *",
        )),
    }
}

fn version(value: &HeaderValue) -> Option<u64> {
    let text = value.to_str().ok()?.trim();
    let version = text.strip_prefix('"')?.strip_suffix('"')?.parse().ok();
    // Version 0 is refused: scripts would take it for the condition that no override is in force.
    version.filter(|version| *version != 0)
}

/// Parses a body as JSON. Returns `None` for an empty body.
pub(super) fn read<T: DeserializeOwned>(body: &Bytes) -> Result<Option<T>, Refusal> {
    if body.trim_ascii().is_empty() {
        return Ok(None);
    }
    let read = serde_json::from_slice(body);
    read.map(Some)
        .map_err(|error| bad(format_args!("the body cannot be read: {error}")))
}
