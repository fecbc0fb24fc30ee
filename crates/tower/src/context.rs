//! Data about a request that are not in its head.

use std::sync::Arc;

use http::Request;
use tidegate_net::peer::Peer;
use tidegate_net::tls::ClientCertificate;
use tidegate_net::transmission::Transmission;

use crate::{RequestTexts, Reserves};
use tidegate_identity::Client;

/// The context of a request, in its extensions.
///
/// A service in front of the rate-limit layer sets the fields up to `is_preflight`. The layer sets the other fields for the service behind
/// the layer.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// The other end of the connection.
    pub peer: Peer,
    /// The client's certificate, which the handshake verified.
    pub certificate: Option<Arc<ClientCertificate>>,
    /// Each `{name}` of the route's pattern, with the path segment that matches it.
    pub path_values: Vec<(Arc<str>, Box<str>)>,
    /// Whether this is a CORS preflight that the service behind the limits answers itself. Browsers send no credentials with a preflight,
    /// so the limits must not require any.
    pub is_preflight: bool,
    /// The units that the request reserves, by the numbers in its body. `None` if no limit of the route reads them.
    pub reserves: Option<Reserves>,
    /// The texts in the request's body that a limit of the route needs.
    pub texts: RequestTexts,
    /// The client, if the service behind the layer needs the client.
    pub client: Option<Client>,
    /// Records whether the request was forwarded. `None` if the request has no holds.
    ///
    /// The service that forwards the request records three events: the service begins to send the request, the request could not be sent,
    /// or no upstream answered and the service answers instead. If the client leaves before the request was forwarded, the holds end
    /// without a charge. If the service answers without having sent the request, the holds whose cost would be in the answer end without a
    /// charge, too.
    pub transmission: Option<Transmission>,
}

/// The context of requests whose extensions have no context. All these requests count as one caller, so limits apply to them, too.
static UNKNOWN: RequestContext = RequestContext::new(Peer::UNKNOWN);

impl RequestContext {
    /// Makes the context of a request that came from `peer`.
    pub const fn new(peer: Peer) -> Self {
        Self {
            peer,
            certificate: None,
            path_values: Vec::new(),
            is_preflight: false,
            reserves: None,
            texts: RequestTexts::NONE,
            client: None,
            transmission: None,
        }
    }

    /// Returns the context of a request.
    pub fn of<B>(request: &Request<B>) -> &Self {
        request.extensions().get().unwrap_or(&UNKNOWN)
    }

    /// Returns the context of a request. Adds a context if there is none.
    pub fn of_mut<B>(request: &mut Request<B>) -> &mut Self {
        let extensions = request.extensions_mut();
        extensions.get_or_insert_with(|| UNKNOWN.clone())
    }

    pub(crate) fn path_value(&self, name: &str) -> Option<&str> {
        let mut values = self.path_values.iter();
        let (_, value) = values.find(|(key, _)| **key == *name)?;
        Some(value)
    }
}
