//! The answer to a request that no route takes.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::CONTENT_TYPE;
use http::{Request, Response, StatusCode};
use tidegate_tower::Reject;
use tower::Service;

use super::problem::Problem;
use crate::body::Body;

/// Answers one request with a problem.
#[derive(Clone, Debug)]
pub(crate) struct Unmatched {
    /// The answer where there is no route; none: the problem.
    pub(crate) no_route: Option<Arc<Reject>>,
    /// Why no route takes the request.
    pub(crate) problem: Problem,
}

impl<B> Service<Request<B>> for Unmatched {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        let problem = self.problem.clone();
        let answer = match &self.no_route {
            Some(answer) if problem.status == StatusCode::NOT_FOUND => fixed(answer, problem),
            _ => problem.respond(),
        };
        std::future::ready(Ok(answer))
    }
}

/// The answer that the configuration has in place of a problem.
fn fixed(answer: &Reject, problem: Problem) -> Response<Body> {
    let mut response = match &answer.body {
        None => problem.respond(),
        Some((kind, body)) => {
            let mut response = Response::new(Body::from(body.clone()));
            response.headers_mut().insert(CONTENT_TYPE, kind.clone());
            response
        }
    };
    *response.status_mut() = answer.status;
    response
}
