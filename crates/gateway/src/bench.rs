//! What the micro-benchmarks reach of this crate, and nobody else may.

use http::{Method, Request};

use crate::config::Plan;
use crate::routes::Routes;
use crate::target::Target;

/// The routes of a plan, without what serves them.
#[derive(Debug)]
pub struct RouteTable(Routes<()>);

/// What a request asks for.
#[derive(Debug)]
pub struct Sought<'a> {
    target: Target<'a>,
    method: &'a Method,
}

impl<'a> Sought<'a> {
    /// Reads it, if it is well formed.
    pub fn by<B>(request: &'a Request<B>) -> Option<Self> {
        Some(Self {
            target: Target::of(request).ok()?,
            method: request.method(),
        })
    }
}

impl RouteTable {
    /// The routes of `plan`.
    pub fn new(plan: &Plan) -> Self {
        Self(Routes::new(&plan.routes, |_| ()))
    }

    /// Whether there is a route for it.
    pub fn find(&self, sought: &Sought<'_>) -> bool {
        self.0.find(&sought.target, sought.method).is_ok()
    }
}
