//! How the gateway finds the route of a request.

use http::Request;

/// The route finding of one configuration. The gateway's own does it; this crate has none.
pub trait Router {
    /// The number of the route that takes a request, by its place in the configuration; none: no route takes it. The facts
    /// of the route that limits need are added to the context of the request.
    fn route(&self, request: &mut Request<()>) -> Option<usize>;
}
