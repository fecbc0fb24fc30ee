//! Finds the route of a request, through the gateway.

use http::Request;

/// The routing of one configuration. The gateway implements it, because this crate has no routing of its own.
pub trait Router {
    /// Returns the place in the configuration of the route that takes a request, or `None` if no route takes it. Adds the facts about the
    /// route that limits need to the context of the request.
    fn route(&self, request: &mut Request<()>) -> Option<usize>;
}
