//! Calls that are refused before a decision. Each of them is logged and counted.

use std::sync::Arc;

use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode, Version};
use tidegate_server::ConnectionInfo;
use tidegate_telemetry::metrics::RouteMetrics;
use tidegate_telemetry::{Door, RequestId};
use tidegate_tower::problem;

use crate::body::Body;
use crate::forward::identify;
use crate::outcome::Answered;
use crate::request::problem::Problem;
use crate::stack::Stack;

/// The answer to a call that is refused before a decision.
#[derive(Debug)]
pub(super) struct Refusal {
    error: &'static str,
    response: Box<Response<Body>>,
    closes: bool,
}

impl Refusal {
    /// Makes a refusal whose answer is a problem (RFC 9457).
    pub(super) fn new(status: StatusCode, error: &'static str, detail: &str) -> Self {
        Self {
            error,
            response: Box::new(problem(status, error, detail)),
            closes: false,
        }
    }

    /// Makes the answer close a connection of HTTP/1, because the position of the next call in its bytes is uncertain.
    pub(super) const fn closing(mut self) -> Self {
        self.closes = true;
        self
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self {
            error: problem.error,
            response: Box::new(problem.respond()),
            closes: false,
        }
    }
}

/// The log and the counters for refused calls of one door.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusals<'a> {
    pub(super) stack: &'a Stack,
    pub(super) connection: &'a ConnectionInfo,
    pub(super) door: Door,
    pub(super) metrics: &'a Arc<RouteMetrics>,
}

impl Refusals<'_> {
    /// Records a refused call, and returns its answer.
    pub(super) fn answer<B>(&self, call: &Request<B>, refusal: Refusal) -> Response<Body> {
        let mut response = *refusal.response;
        let id = self.stack.request_id(call, self.connection);
        self.record(call, &id, response.status(), refusal.error);
        if refusal.closes && call.version() < Version::HTTP_2 {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        let id = self.stack.request_id_in_answers.then_some(id);
        identify(&mut response, id);
        response
    }

    /// Records a refused call.
    pub(super) fn record<B>(
        &self,
        call: &Request<B>,
        id: &RequestId,
        status: StatusCode,
        error: &'static str,
    ) {
        let peer = self.connection.peer().address;
        let (addresses, counters) = ((peer, peer.ip()), (None, self.metrics));
        let stack = self.stack;
        let mut end = stack.begin_question(call, id, self.door, addresses, counters);
        let answered = Answered {
            error: Some(error),
            ..Answered::default()
        };
        end.answered(answered, status, Some(id));
        match status {
            StatusCode::SERVICE_UNAVAILABLE => end.shed(),
            StatusCode::REQUEST_TIMEOUT => end.too_slow(),
            _ => {}
        }
    }
}
