//! The interface through which the gateway finds the route of a replayed request.

use http::Request;

/// The routing of one configuration. The gateway implements it, because this crate has no routing of its own.
pub trait Router {
    /// Returns the index in the configuration of the route that matches a request, or `None` if no route matches. Adds the path's values
    /// and other facts for limits to the request's `RequestContext`.
    fn route(&self, request: &mut Request<()>) -> Option<usize>;
}
