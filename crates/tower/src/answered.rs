//! Data about an answer that are neither in its head nor in its body.

use http::{Response, StatusCode};

use crate::decided::refusal::{self, Refusal};
use crate::exchange::AnswerBody;
use crate::{Decided, InFlight};

/// Data about an answer, in its extensions. The rate-limit layer sets `decided` and `in_flight`, and the service behind the layer sets
/// `forwarded`. Both set `error` in their refusals.
#[derive(Clone, Debug, Default)]
pub struct Answered<F = ()> {
    /// The decision about the request.
    pub decided: Option<Box<Decided>>,
    /// The holds that last until the body has ended.
    pub in_flight: Option<InFlight>,
    /// The member `error` of the problem details in the body. The log reads this field, because it does not read bodies. `None` for a
    /// refusal by a limit, because the log names this limit in another field.
    pub error: Option<&'static str>,
    /// Data about the exchange with the upstream, from the service behind the limits.
    pub forwarded: F,
}

/// Returns an answer with problem details (RFC 9457): a short `error` for programs, and a `detail` for people. The answer must not be
/// cached.
pub fn problem<R: AnswerBody>(
    status: StatusCode,
    error: &'static str,
    detail: &str,
) -> Response<R> {
    respond(refusal::problem(status, error, detail))
}

/// Makes the answer for a refusal, with [`Answered`] in the answer's extensions.
pub(crate) fn respond<R: AnswerBody>(refusal: Refusal) -> Response<R> {
    let mut response = refusal.response.map(R::from);
    let answered = Answered::<R::Forwarded> {
        error: refusal.error,
        ..Answered::default()
    };
    response.extensions_mut().insert(answered);
    response
}
