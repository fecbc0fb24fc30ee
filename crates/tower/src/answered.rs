//! The facts of an answer beside its head and its body.

use http::{Response, StatusCode};

use crate::decided::refusal::{self, Refusal};
use crate::exchange::AnswerBody;
use crate::{Decided, InFlight};

/// The facts of an answer, in its extensions. The service behind the limits sets some, and the limits add the others.
#[derive(Clone, Debug, Default)]
pub struct Answered<F = ()> {
    /// The decision about the request.
    pub decided: Option<Decided>,
    /// The holds of the request, until the body has ended.
    pub in_flight: Option<InFlight>,
    /// The `error` of the problem details, for a log, which does not read bodies. A refusal by a limit has none: the log has the limit.
    pub error: Option<&'static str>,
    /// The service behind the limits notes here the exchange with the upstream.
    pub forwarded: F,
}

/// Returns an answer with problem details (RFC 9457) in place of a page: a short `error` for programs and a `detail` for people. Never
/// cached.
pub fn problem<R: AnswerBody>(
    status: StatusCode,
    error: &'static str,
    detail: &str,
) -> Response<R> {
    respond(refusal::problem(status, error, detail))
}

/// Returns the answer of a refusal, with its facts.
pub(crate) fn respond<R: AnswerBody>(refusal: Refusal) -> Response<R> {
    let mut response = refusal.response.map(R::from);
    let answered = Answered::<R::Forwarded> {
        error: refusal.error,
        ..Answered::default()
    };
    response.extensions_mut().insert(answered);
    response
}
