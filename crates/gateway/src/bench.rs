//! What the micro-benchmarks and the fuzz targets reach of this crate, and nothing else may.

use std::cell::Cell;

use http::{Method, Request, StatusCode};

use crate::request::routes::Routes;
use crate::request::target::Target;
use tidegate_config::Plan;

pub use tidegate_config::routes::RouteShape;

/// Routes by where they apply, without what serves them.
#[derive(Debug)]
pub struct RouteTable(Routes<usize>);

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
        let next = Cell::new(0);
        Self(Routes::new(&plan.routes, |_| next.replace(next.get() + 1)))
    }

    /// Routes of these shapes, in this order.
    pub fn of(shapes: impl IntoIterator<Item = RouteShape>) -> Self {
        Self(Routes::of_shapes(shapes.into_iter().enumerate()))
    }

    /// Whether there is a route for it.
    pub fn find(&self, sought: &Sought<'_>) -> bool {
        self.number(sought).is_ok()
    }

    /// The number of the route for it, from 0.
    ///
    /// # Errors
    ///
    /// The status of the answer if there is none.
    pub fn number(&self, sought: &Sought<'_>) -> Result<usize, StatusCode> {
        let found = self.0.find(&sought.target, sought.method);
        found
            .map(|found| *found.route)
            .map_err(|problem| problem.status)
    }
}
