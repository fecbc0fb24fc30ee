//! How the gateway and its routes answer: which headers tell of limits, and what a refusal looks like.

use http::{HeaderValue, StatusCode};
use tidegate_tower::{Answers, RateLimitHeaders, Reject};

use super::Check;
use crate::file::{self, SingleOr};
use crate::value::{HeadersWord, IetfDraft, MediaType, RejectBody, RejectStatus, Scalar};
use tidegate_yaml::Problem;

/// What a body is if nothing is said.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

impl Check<'_> {
    /// How a part of the file answers; what it does not say is as `outer`.
    pub(super) fn answers(
        &mut self,
        headers: Option<&SingleOr<HeadersWord, file::Headers>>,
        reject: Option<&file::Reject>,
        outer: &Answers,
    ) -> Answers {
        Answers {
            headers: headers.map_or(outer.headers, |headers| self.headers(headers)),
            reject: match reject {
                Some(reject) => self.reject(reject, StatusCode::TOO_MANY_REQUESTS),
                None => outer.reject.clone(),
            },
        }
    }

    fn headers(&mut self, headers: &SingleOr<HeadersWord, file::Headers>) -> RateLimitHeaders {
        match headers {
            SingleOr::Single(scalar) => match self.read(scalar) {
                Some(HeadersWord::None) => RateLimitHeaders {
                    x_ratelimit: None,
                    ietf: false,
                },
                Some(HeadersWord::XRateLimit) | None => RateLimitHeaders::default(),
            },
            SingleOr::Block(block) => {
                let file::Headers { reset, ietf } = &block.value;
                RateLimitHeaders {
                    x_ratelimit: Some(self.read_some(reset.as_ref()).unwrap_or_default()),
                    ietf: self.read_some::<IetfDraft>(ietf.as_ref()).is_some(),
                }
            }
        }
    }

    /// An answer whose status is `usual` unless it says otherwise.
    pub(super) fn reject(&mut self, reject: &file::Reject, usual: StatusCode) -> Reject {
        let status = self.read_some(reject.status.as_ref());
        let kind = self.read_some(reject.content_type.as_ref());
        let kind = kind.map_or(TEXT, |MediaType(kind)| kind);
        let body = self.read_some(reject.body.as_ref());
        if let (Some(scalar), None) = (&reject.content_type, &reject.body) {
            self.no_body(scalar);
        }
        Reject {
            status: status.map_or(usual, |RejectStatus(status)| status),
            body: body.map(|RejectBody(body)| (kind, body)),
        }
    }

    fn no_body(&mut self, kind: &Scalar<MediaType>) {
        let problem = Problem::new(
            kind.place,
            "there is no `body` that this could be the type of",
        );
        self.refuse(
            problem.note(
                "without a `body` a refusal is problem details, which have a type of their own",
            ),
        );
    }
}
