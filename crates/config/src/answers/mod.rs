//! How the gateway and its routes answer: which headers tell of limits, and what a refusal looks like (`headers`, `reject`,
//! `unmatched`).

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};
use tidegate_tower::{Answers, RateLimitHeaders, Reject, Reset};
use tidegate_yaml::Problem;

use crate::check::Check;
use crate::shape::SingleOr;
use crate::value::{Fault, Scalar, Value};

/// Headers that tell of limits, beside `X-RateLimit-Limit` and `-Remaining`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Headers {
    /// How X-RateLimit-Reset is written, in seconds: epoch or delta. Default: epoch.
    pub(crate) reset: Option<Scalar<Reset>>,
    /// The draft of the IETF whose RateLimit-Policy and RateLimit are sent as well: draft-11. Default: none are.
    pub(crate) ietf: Option<Scalar<IetfDraft>>,
}

/// What a refusal by a limit looks like; Retry-After and the headers that tell of limits are sent in any case.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Reject")]
pub(crate) struct WrittenReject {
    /// Its status, 400 to 599. Default: 429.
    pub(crate) status: Option<Scalar<RejectStatus>>,
    /// The type of its body. Default: text/plain; charset=utf-8.
    pub(crate) content_type: Option<Scalar<MediaType>>,
    /// Its body, 16 KB at most. Default: problem details.
    pub(crate) body: Option<Scalar<RejectBody>>,
}

/// Which headers tell of limits, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadersWord {
    XRateLimit,
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

impl Value for Reset {
    const NAME: &'static str = "Reset";
    const WHAT: &'static str = "a way to write a reset";
    const ALLOWED: &'static str = "one of a few words";

    fn read(text: &str) -> Result<Self, Fault> {
        match text {
            "epoch" => Ok(Self::Epoch),
            "delta" => Ok(Self::Delta),
            _ => Err(Fault::Form),
        }
    }

    fn words() -> impl Iterator<Item = &'static str> {
        ["epoch", "delta"].into_iter()
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
        let is_token = |part: &str| !part.is_empty() && part.bytes().all(is_token_byte);
        let is_type = essence
            .split_once('/')
            .is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype));
        let value = HeaderValue::from_str(text).ok().filter(|_| is_type);
        value.map(Self).ok_or(Fault::Form)
    }
}

/// A byte of a token (RFC 9110, 5.6.2).
const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
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

/// What a body is if nothing is said.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// How a part of the file answers; what it does not say is as `outer`.
pub(crate) fn answers(
    check: &mut Check<'_>,
    headers: Option<&SingleOr<HeadersWord, Headers>>,
    reject: Option<&WrittenReject>,
    outer: &Answers,
) -> Answers {
    Answers {
        headers: headers.map_or(outer.headers, |headers| limit_headers(check, headers)),
        reject: match reject {
            Some(reject) => refusal(check, reject, StatusCode::TOO_MANY_REQUESTS),
            None => outer.reject.clone(),
        },
    }
}

fn limit_headers(
    check: &mut Check<'_>,
    headers: &SingleOr<HeadersWord, Headers>,
) -> RateLimitHeaders {
    match headers {
        SingleOr::Single(scalar) => match check.read(scalar) {
            Some(HeadersWord::None) => RateLimitHeaders {
                x_ratelimit: None,
                ietf: false,
            },
            Some(HeadersWord::XRateLimit) | None => RateLimitHeaders::default(),
        },
        SingleOr::Block(block) => {
            let Headers { reset, ietf } = &block.value;
            RateLimitHeaders {
                x_ratelimit: Some(check.read_some(reset.as_ref()).unwrap_or_default()),
                ietf: check.read_some::<IetfDraft>(ietf.as_ref()).is_some(),
            }
        }
    }
}

/// An answer whose status is `usual` unless it says otherwise.
pub(crate) fn refusal(check: &mut Check<'_>, reject: &WrittenReject, usual: StatusCode) -> Reject {
    let status = check.read_some(reject.status.as_ref());
    let kind = check.read_some(reject.content_type.as_ref());
    let kind = kind.map_or(TEXT, |MediaType(kind)| kind);
    let body = check.read_some(reject.body.as_ref());
    if let (Some(scalar), None) = (&reject.content_type, &reject.body) {
        no_body(check, scalar);
    }
    Reject {
        status: status.map_or(usual, |RejectStatus(status)| status),
        body: body.map(|RejectBody(body)| (kind, body)),
    }
}

fn no_body(check: &mut Check<'_>, kind: &Scalar<MediaType>) {
    let problem = Problem::new(
        kind.place,
        "there is no `body` that this could be the type of",
    );
    check.refuse(
        problem
            .note("without a `body` a refusal is problem details, which have a type of their own"),
    );
}
