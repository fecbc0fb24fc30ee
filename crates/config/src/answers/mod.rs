//! The answers of the gateway and its routes: limit headers and refusals (`headers`, `reject`, `unmatched`).

use crate::yaml::Problem;
use http::{HeaderValue, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_tower::{Answers, RateLimitHeaders, Reject, Reset};

use crate::check::Check;
use crate::shape::SingleOr;
use crate::value::Scalar;
use crate::value::answers::{HeadersWord, IetfDraft, MediaType, RejectBody, RejectStatus};

/// The rate-limit headers of answers. With `{ reset, ietf }`, answers always have `X-RateLimit-Limit` and `X-RateLimit-Remaining`, too.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Headers {
    /// The form of X-RateLimit-Reset: seconds since the epoch (epoch), or seconds from now (delta). Default: epoch.
    pub(crate) reset: Option<Scalar<Reset>>,
    /// The IETF draft of the additional headers RateLimit-Policy and RateLimit: draft-11. Default: not sent.
    pub(crate) ietf: Option<Scalar<IetfDraft>>,
}

/// The answer to a refused request. Retry-After and limit headers do not depend on these keys.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Reject")]
pub(crate) struct WrittenReject {
    /// The status of the answer, 400 to 599. Default: 429; under `unmatched` 404.
    pub(crate) status: Option<Scalar<RejectStatus>>,
    /// The type of the body. Default: text/plain; charset=utf-8.
    pub(crate) content_type: Option<Scalar<MediaType>>,
    /// The body of the answer, 16 KB at most. Default: problem details.
    pub(crate) body: Option<Scalar<RejectBody>>,
}

/// The default `Content-Type` of a body.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Reads the answers of the gateway or of a route. If `headers` or `reject` is missing, uses the value in `outer`.
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

/// Reads an answer. Without the key `status`, the status is `usual`.
pub(crate) fn refusal(check: &mut Check<'_>, reject: &WrittenReject, usual: StatusCode) -> Reject {
    let status = check.read_some(reject.status.as_ref());
    let kind = check.read_some(reject.content_type.as_ref());
    let kind = kind.map_or(TEXT, |MediaType(kind)| kind);
    let body = check.read_some(reject.body.as_ref());
    if let (Some(scalar), None) = (&reject.content_type, &reject.body) {
        let message = "there is no `body` that this could be the type of";
        let note = "without a `body` a refusal is problem details, which have a type of their own";
        check.refuse(Problem::new(scalar.place, message).note(note));
    }
    Reject {
        status: status.map_or(usual, |RejectStatus(status)| status),
        body: body.map(|RejectBody(body)| (kind, body)),
    }
}
