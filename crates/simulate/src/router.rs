//! How the gateway finds the route of a request.

use http::Request;

/// The route finding of one configuration. The gateway's own does it; this crate has none.
pub trait Router {
    /// The number of the route that takes a request, by its place in the configuration; none: no route takes it. Whatever the limits
    /// need to know of the route is left in the extensions of the request.
    fn route(&self, request: &mut Request<()>) -> Option<usize>;
}
