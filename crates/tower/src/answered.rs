//! Data about an answer that are neither in its head nor in its body.

use bytes::Bytes;
use http::{Response, StatusCode};

use crate::decided::refusal::{self, Refusal};
use crate::{Decided, InFlight};

/// Data about an answer: see [`AnswerBody::answered`]. The rate-limit layer sets `decided` and `in_flight`, and the service behind the
/// layer sets `forwarded`. Both set `error` in their refusals.
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

/// The body of an answer.
pub trait AnswerBody: From<Bytes> + Send + 'static {
    /// The data that the service behind the limits adds to [`Answered`].
    type Forwarded: Clone + Default + Send + Sync + 'static;

    /// Returns the data about an answer, which are empty at first. They are in the answer's extensions, unless the body has a place for
    /// them: a map of extensions takes two allocations more.
    fn answered(response: &mut Response<Self>) -> &mut Answered<Self::Forwarded> {
        response.extensions_mut().get_or_insert_default()
    }

    /// Reads the rest of the body after the client has left, within bounds of bytes and time, and ends the holds.
    fn read_on(self, in_flight: InFlight) -> impl Future<Output = ()> + Send;
}

impl AnswerBody for Bytes {
    type Forwarded = ();

    async fn read_on(self, in_flight: InFlight) {
        let mut rest = &self[..];
        while !rest.is_empty() {
            rest = &rest[in_flight.read_step(rest)..];
        }
    }
}

/// Returns an answer with problem details (RFC 9457): a short `error` for programs, and a `detail` for people. `error` is written without
/// escapes. The answer must not be cached.
pub fn problem<R: AnswerBody>(
    status: StatusCode,
    error: &'static str,
    detail: &str,
) -> Response<R> {
    respond(refusal::problem(status, error, detail))
}

/// Makes the answer for a refusal, with its data in [`Answered`].
pub(crate) fn respond<R: AnswerBody>(refusal: Refusal) -> Response<R> {
    let mut response = refusal.response.map(R::from);
    R::answered(&mut response).error = refusal.error;
    response
}
