//! What a request goes through on its route, in order. Whoever reads this file knows the gateway.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::CONTENT_TYPE;
use http::{Request, Response, StatusCode};
use tidegate_store::Store;
use tidegate_tower::{Clients, Hasher, Lines, Policy, RateLimit, RateLimitLayer, Reject};
use tower::{Service, ServiceBuilder};

use crate::body::Body;
use crate::problem::Problem;
use crate::proxy::{Forward, Forwarding};

/// The stack of a route.
pub(crate) type Stack = RateLimit<Forward>;

/// The stack of requests that no route takes.
pub(crate) type UnmatchedStack = RateLimit<Answer>;

/// What the limits of all stacks share.
#[derive(Clone, Debug)]
pub(crate) struct Enforcement {
    pub(crate) clients: Arc<Clients>,
    pub(crate) hasher: Hasher,
    pub(crate) store: Store,
    pub(crate) lines: Lines,
}

impl Enforcement {
    /// Limits, then the upstream.
    pub(crate) fn route(&self, policy: Policy, forwarding: Forwarding) -> Stack {
        ServiceBuilder::new()
            // First, because a request that is refused must cost nobody anything: names the client, asks the store,
            // lets the request wait for its turn, answers 429 or 503, or settles by what comes back and writes the headers
            // on it.
            .layer(self.limits(policy))
            // Then out: streams the request to the upstream and the answer back.
            .service(Forward::new(forwarding))
    }

    /// The limits that are always charged, then the problem that the request carries: guessing is limited, too.
    pub(crate) fn unmatched(&self, policy: Policy, no_route: Option<Reject>) -> UnmatchedStack {
        ServiceBuilder::new()
            .layer(self.limits(policy))
            .service(Answer {
                no_route: no_route.map(Arc::new),
            })
    }

    fn limits(&self, policy: Policy) -> RateLimitLayer {
        RateLimitLayer::new(
            policy,
            self.clients.clone(),
            self.hasher.clone(),
            self.store.clone(),
            self.lines.clone(),
        )
    }
}

/// Answers with the [`Problem`] in the request's extensions.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// What is answered where there is no route; none: the problem.
    no_route: Option<Arc<Reject>>,
}

impl<B> Service<Request<B>> for Answer {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let problem = request.extensions().get::<Problem>().cloned();
        let problem = problem.unwrap_or(UNKNOWN);
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

const UNKNOWN: Problem = Problem::new(
    StatusCode::BAD_REQUEST,
    "bad_request",
    "The request cannot be served.",
);
