//! How the gateway and its routes answer: which headers tell of limits, and what a refusal looks like.

use http::{HeaderValue, StatusCode};
use tidegate_tower::{Answers, RateLimitHeaders, Reject};

use crate::file::{self, SingleOr};
use crate::reading::Check;
use crate::value::{HeadersWord, IetfDraft, MediaType, RejectBody, RejectStatus, Scalar};
use tidegate_yaml::Problem;

/// What a body is if nothing is said.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// How a part of the file answers; what it does not say is as `outer`.
pub(crate) fn answers(
    check: &mut Check<'_>,
    headers: Option<&SingleOr<HeadersWord, file::Headers>>,
    reject: Option<&file::Reject>,
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
    headers: &SingleOr<HeadersWord, file::Headers>,
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
            let file::Headers { reset, ietf } = &block.value;
            RateLimitHeaders {
                x_ratelimit: Some(check.read_some(reset.as_ref()).unwrap_or_default()),
                ietf: check.read_some::<IetfDraft>(ietf.as_ref()).is_some(),
            }
        }
    }
}

/// An answer whose status is `usual` unless it says otherwise.
pub(crate) fn refusal(check: &mut Check<'_>, reject: &file::Reject, usual: StatusCode) -> Reject {
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
