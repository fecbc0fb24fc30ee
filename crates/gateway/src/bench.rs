//! The parts of this crate that micro-benchmarks and fuzz targets use. No other code may use them.

use std::cell::Cell;

use http::{Method, Request, StatusCode};

use crate::request::routes::Routes;
use crate::request::target::Target;
use tidegate_config::Settings;

pub use tidegate_config::routes::RouteShape;

/// Routes with their conditions, but without services.
#[derive(Debug)]
pub struct RouteTable(Routes<usize>);

/// The target and the method of a request.
#[derive(Debug)]
pub struct Sought<'a> {
    target: Target<'a>,
    method: &'a Method,
}

impl<'a> Sought<'a> {
    /// Reads the target of a request; `None` if the request is malformed.
    pub fn by<B>(request: &'a Request<B>) -> Option<Self> {
        Some(Self {
            target: Target::of(request).ok()?,
            method: request.method(),
        })
    }
}

impl RouteTable {
    /// Returns the routes of `settings`.
    pub fn new(settings: &Settings) -> Self {
        let next = Cell::new(0);
        Self(Routes::new(&settings.routes, |_| {
            next.replace(next.get() + 1)
        }))
    }

    /// Makes routes of these shapes, in this order.
    pub fn of(shapes: impl IntoIterator<Item = RouteShape>) -> Self {
        Self(Routes::of_shapes(shapes.into_iter().enumerate()))
    }

    /// Returns whether any route takes the request.
    pub fn find(&self, sought: &Sought<'_>) -> bool {
        self.number(sought).is_ok()
    }

    /// Returns the index of the route that takes the request, in the order of the configuration.
    ///
    /// # Errors
    ///
    /// No route takes the request. The error is the status of the gateway's answer.
    pub fn number(&self, sought: &Sought<'_>) -> Result<usize, StatusCode> {
        let route_match = self.0.find(&sought.target, sought.method);
        route_match
            .map(|it| *it.route)
            .map_err(|problem| problem.status)
    }
}
