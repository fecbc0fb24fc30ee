//! Values for the answers of the gateway.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::{Map, json};

use crate::values::value::number::{object, pattern, whole, within};
use crate::values::value::{Fault, Value};

/// The value of `headers` that is one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadersWord {
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`.
    XRateLimit,
    /// No header.
    None,
}

impl Value for HeadersWord {
    const NAME: &'static str = "HeadersWord";
    const WHAT: &'static str = "a kind of headers";
    const ALLOWED: &'static str = "x-ratelimit, none, or `{ reset: …, ietf: … }`";

    fn read(text: &str) -> Result<Self, Fault> {
        match text {
            "x-ratelimit" => Ok(Self::XRateLimit),
            "none" => Ok(Self::None),
            _ => Err(Fault::Form),
        }
    }
}

/// The supported IETF draft of rate-limit headers: draft-11.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IetfDraft;

impl Value for IetfDraft {
    const NAME: &'static str = "IetfDraft";
    const WHAT: &'static str = "a draft that is known here";
    const ALLOWED: &'static str = "draft-11";

    fn read(text: &str) -> Result<Self, Fault> {
        (text == "draft-11").then_some(Self).ok_or(Fault::Form)
    }

    fn words() -> impl Iterator<Item = &'static str> {
        ["draft-11"].into_iter()
    }
}

/// The status of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RejectStatus(pub(crate) StatusCode);

impl Value for RejectStatus {
    const NAME: &'static str = "RejectStatus";
    const WHAT: &'static str = "the status of a refusal";
    const ALLOWED: &'static str = "a whole number from 400 to 599, such as 429 or 503";

    fn read(text: &str) -> Result<Self, Fault> {
        let status = StatusCode::from_u16(within(text, 400..=599)?);
        status.map(Self).map_err(|_| Fault::Form)
    }

    fn schema() -> Map<String, serde_json::Value> {
        whole(400, Some(599))
    }
}

/// A status or a class of statuses, as a range: the first and the last status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StatusRange(pub(crate) u16, pub(crate) u16);

impl StatusRange {
    /// Reads a range of statuses from `least` up to 599.
    pub(crate) fn from(least: u16, text: &str) -> Result<Self, Fault> {
        let range = match text.strip_suffix("xx") {
            Some(class) => {
                within(class, 1..=5).map(|class: u16| Self(100 * class, 100 * class + 99))
            }
            None => within(text, 100..=599).map(|status| Self(status, status)),
        };
        range.and_then(|range| (range.0 >= least).then_some(range).ok_or(Fault::Form))
    }

    /// Returns the JSON Schema of a status or a class of statuses. `classes` is a regular expression for the first digit of statuses.
    pub(crate) fn schema_from(least: u16, classes: &str) -> Map<String, serde_json::Value> {
        let class = pattern(&format!("^{classes}(xx|[0-9]{{2}})$"));
        object(json!({ "anyOf": [whole(least.into(), Some(599)), class] }))
    }
}

impl Value for StatusRange {
    const NAME: &'static str = "StatusRange";
    const WHAT: &'static str = "a status or a class of them";
    const ALLOWED: &'static str = "a status from 100 to 599, such as 404, or a class, such as 5xx";

    fn read(text: &str) -> Result<Self, Fault> {
        Self::from(100, text)
    }

    fn schema() -> Map<String, serde_json::Value> {
        Self::schema_from(100, "[1-5]")
    }
}

/// A `Content-Type`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MediaType(pub(crate) HeaderValue);

impl Value for MediaType {
    const NAME: &'static str = "MediaType";
    const WHAT: &'static str = "a content type";
    const ALLOWED: &'static str =
        "a type and a subtype, such as application/json or \"text/html; charset=utf-8\"";

    fn read(text: &str) -> Result<Self, Fault> {
        let essence = text.split(';').next().unwrap_or_default().trim_end();
        // Type and subtype are tokens (RFC 9110, 8.3.1), like the name of a header.
        let is_token = |part: &str| HeaderName::try_from(part).is_ok();
        let is_type = essence
            .split_once('/')
            .is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype));
        let value = HeaderValue::from_str(text).ok().filter(|_| is_type);
        value.map(Self).ok_or(Fault::Form)
    }
}

/// The body of a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RejectBody(pub(crate) Bytes);

impl Value for RejectBody {
    const NAME: &'static str = "RejectBody";
    const WHAT: &'static str = "a body";
    const ALLOWED: &'static str = "any text of at most 16 KB, sent as it is";
    /// The longest body, in bytes. The bound is small, because refusals are frequent, and each refusal sends the whole body.
    const MAX_BYTES: usize = 16 << 10;

    fn read(text: &str) -> Result<Self, Fault> {
        Ok(Self(Bytes::copy_from_slice(text.as_bytes())))
    }
}
