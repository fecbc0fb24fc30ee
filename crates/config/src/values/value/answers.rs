//! Values of what the gateway answers.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::{Map, json};

use crate::values::value::number::{digits, object};
use crate::values::value::{Fault, Value};

/// Which headers tell of limits, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadersWord {
    /// `X-RateLimit-Limit` and those beside it.
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

/// The draft of the IETF that is known here.
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
        let status = text.parse::<StatusCode>().ok();
        let status = status.filter(|status| status.is_client_error() || status.is_server_error());
        status.map(Self).ok_or(Fault::Form)
    }

    fn schema() -> Map<String, serde_json::Value> {
        let schema = json!({ "type": "integer", "minimum": 400, "maximum": 599 });
        schema.as_object().cloned().unwrap_or_default()
    }
}

/// A status, or all of a class; both ends are included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StatusRange(pub(crate) u16, pub u16);

impl Value for StatusRange {
    const NAME: &'static str = "StatusRange";
    const WHAT: &'static str = "a status or a class of them";
    const ALLOWED: &'static str = "a status from 100 to 599, such as 404, or a class, such as 5xx";

    fn read(text: &str) -> Result<Self, Fault> {
        if let Some(class) = text.strip_suffix("xx").and_then(digits) {
            let class = u16::try_from(class)
                .ok()
                .filter(|class| (1..=5).contains(class));
            return class
                .map(|class| Self(100 * class, 100 * class + 99))
                .ok_or(Fault::Form);
        }
        let status = digits(text).and_then(|status| u16::try_from(status).ok());
        let status = status.filter(|status| (100..=599).contains(status));
        status.map(|status| Self(status, status)).ok_or(Fault::Form)
    }

    fn schema() -> Map<String, serde_json::Value> {
        let status = json!({ "type": "integer", "minimum": 100, "maximum": 599 });
        object(
            json!({ "anyOf": [status, { "type": "string", "pattern": "^[1-5](xx|[0-9]{2})$" }] }),
        )
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
        // Both are tokens (RFC 9110, 8.3.1), as the name of a header is.
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
    /// Refusals are many, and each is written whole.
    const MAX_BYTES: usize = 16 << 10;

    fn read(text: &str) -> Result<Self, Fault> {
        Ok(Self(Bytes::copy_from_slice(text.as_bytes())))
    }
}
