//! The facts of a request beside its head.

use std::sync::Arc;

use http::Request;
use tidegate_net::peer::Peer;
use tidegate_net::tls::ClientCertificate;
use tidegate_net::transmission::Transmission;

use tidegate_identity::Client;

/// The context of a request, in its extensions.
///
/// A service in front of the limits sets the first four fields. The limits set the others for the service behind them.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// The other end of the connection.
    pub peer: Peer,
    /// The certificate that the client showed and the handshake verified.
    pub certificate: Option<Arc<ClientCertificate>>,
    /// The values in the path for the names of the route's pattern.
    pub path_values: Vec<(Arc<str>, Box<str>)>,
    /// Whether this is a CORS preflight that the service behind the limits answers itself. Browsers send no credentials with it.
    pub is_preflight: bool,
    /// The client, if the service behind the limits needs it.
    pub client: Option<Client>,
    /// Records whether the request was forwarded, if the request holds something.
    ///
    /// A service that forwards requests records that it sends the request, and that the request was not sent after all. It also records
    /// that its answer replaces an upstream's. If the client leaves before anything was forwarded, its holds end without a charge. A hold
    /// whose cost is in the answer also ends without a charge if the service answers without a record that it sent the request.
    pub transmission: Option<Transmission>,
}

/// All requests without a context count as one caller: too strict, and never unlimited.
static UNKNOWN: RequestContext = RequestContext::new(Peer::UNKNOWN);

impl RequestContext {
    /// Makes the context of a request that came from `peer`.
    pub const fn new(peer: Peer) -> Self {
        Self {
            peer,
            certificate: None,
            path_values: Vec::new(),
            is_preflight: false,
            client: None,
            transmission: None,
        }
    }

    /// Returns the context of a request.
    pub fn of<B>(request: &Request<B>) -> &Self {
        request.extensions().get().unwrap_or(&UNKNOWN)
    }

    /// Returns the context of a request. Adds one if there is none.
    pub fn of_mut<B>(request: &mut Request<B>) -> &mut Self {
        let extensions = request.extensions_mut();
        extensions.get_or_insert_with(|| UNKNOWN.clone())
    }

    pub(crate) fn path_value(&self, name: &str) -> Option<&str> {
        let mut values = self.path_values.iter();
        let (_, value) = values.find(|(known, _)| **known == *name)?;
        Some(value)
    }
}
