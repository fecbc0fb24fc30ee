//! Finds the route of a request, through the gateway.

use http::Request;

/// The route finding of one configuration. The gateway's own does it; this crate has none.
pub trait Router {
    /// Returns the number of the route that takes a request, by its place in the configuration. None: no route takes it. Adds the facts of
    /// the route that limits need to the context of the request.
    fn route(&self, request: &mut Request<()>) -> Option<usize>;
}
