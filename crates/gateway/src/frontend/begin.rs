//! How a request begins: it gets its route, its ID and its log record before anything waits.
//!
//! hyper drops a request's future unpolled if the end of the connection follows the head directly. So nothing here is
//! async: a request that has begun is counted and logged, whatever becomes of its future.

use std::sync::Arc;

use http::header::HOST;
use http::{Request, StatusCode, Version};
use tidegate_tower::Peer;

use super::Frontend;
use crate::access_log::Record;
use crate::problem::Problem;
use crate::proxy::X_REQUEST_ID;
use crate::request_end::RequestEnd;
use crate::request_id::RequestId;
use crate::target::{Target, rewritten};
use tidegate_server::{ClientBody, ConnectionInfo, Pressure, RequestGuard};

/// Another connection would begin with a handshake, in which the client shows what it has by then.
const CERTIFICATE_ENDED: Problem = Problem::new(
    StatusCode::MISDIRECTED_REQUEST,
    "certificate_expired",
    "The client certificate of this connection has expired.",
);

/// What whoever forwards a request is to tell of it, in its extensions.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    pub(crate) connection: ConnectionInfo,
    pub(crate) request_id: RequestId,
}

/// A request that has begun. No limit is charged yet; dropped, the request is counted and logged as abandoned.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(super) request: Request<ClientBody>,
    pub(super) connection: ConnectionInfo,
    pub(super) end: RequestEnd,
    pub(super) next: Next,
}

/// What is to be done with a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    /// The gateway is short of memory.
    Shed,
    /// The problem in its extensions is the answer; `closes` if no other request may follow on the connection.
    Refuse { status: StatusCode, closes: bool },
    /// The route with this number serves it.
    Serve { route: usize, is_preflight: bool },
}

impl Frontend {
    /// Begins a request. From here on it is logged and counted, also if its client has left and nothing more is done.
    pub(crate) fn begin(
        &self,
        mut request: Request<ClientBody>,
        connection: ConnectionInfo,
        guard: RequestGuard,
    ) -> Begun {
        if self.overload.pressure() == Pressure::Full {
            return self.begin_shed(request, connection, guard);
        }
        let target = match connection.certificate_ended() {
            true => Err(CERTIFICATE_ENDED),
            false => Target::of(&request),
        };
        let found = target.and_then(|target| {
            let found = self.routes.of(&request, &target)?;
            Ok((found, rewritten(&request, &target)))
        });
        let request_id = self.request_id(&request, &connection);
        let route = found.as_ref().ok().map(|(found, _)| found.route);
        let record = self.access_log.is_on().then(|| {
            let route = route.map(|route| route.name.clone());
            self.record(&request, &request_id, route, &connection)
        });
        let metrics = route.map_or(&self.unmatched_metrics, |route| &route.metrics);
        let (log, metrics) = (self.access_log.clone(), metrics.clone());
        let end = RequestEnd::begin(record, log, metrics, guard);
        request.extensions_mut().insert(peer(&connection));
        request.extensions_mut().insert(Arrived {
            connection: connection.clone(),
            request_id,
        });
        let next = match found {
            Ok((found, (uri, host))) => {
                if let Some(uri) = uri {
                    *request.uri_mut() = uri;
                }
                if let Some(host) = host {
                    request.headers_mut().insert(HOST, host);
                }
                if let Some(values) = found.values {
                    request.extensions_mut().insert(values);
                }
                Next::Serve {
                    route: found.at,
                    is_preflight: found.is_preflight,
                }
            }
            Err(problem) => {
                let status = problem.status;
                let closes = problem.is_malformed() && request.version() < Version::HTTP_2;
                request.extensions_mut().insert(problem);
                Next::Refuse { status, closes }
            }
        };
        Begun {
            request,
            connection,
            end,
            next,
        }
    }

    /// Begins a request for which nothing is done: no route is looked for.
    fn begin_shed(
        &self,
        request: Request<ClientBody>,
        connection: ConnectionInfo,
        guard: RequestGuard,
    ) -> Begun {
        let record = self.access_log.is_on().then(|| {
            let request_id = self.request_id(&request, &connection);
            self.record(&request, &request_id, None, &connection)
        });
        let (log, metrics) = (self.access_log.clone(), self.unmatched_metrics.clone());
        let end = RequestEnd::begin(record, log, metrics, guard);
        let next = Next::Shed;
        Begun {
            request,
            connection,
            end,
            next,
        }
    }

    /// The access log's record of a request that has just begun.
    pub(super) fn record<B>(
        &self,
        request: &Request<B>,
        id: &RequestId,
        route: Option<Arc<str>>,
        connection: &ConnectionInfo,
    ) -> Record {
        let peer = peer(connection);
        let client_ip = self.clients.origin(peer, request.headers());
        self.access_log
            .record(request, id, route, peer.address, client_ip)
    }

    /// The ID that a trusted peer gave the request, or a new one.
    fn request_id(&self, request: &Request<ClientBody>, connection: &ConnectionInfo) -> RequestId {
        let given = connection
            .is_trusted()
            .then(|| request.headers().get(X_REQUEST_ID));
        match given.flatten() {
            Some(id) => RequestId::given(id),
            None => self.request_ids.next(),
        }
    }
}

/// The peer as limits know it.
pub(super) fn peer(connection: &ConnectionInfo) -> Peer {
    match connection.is_named() {
        true => Peer::named(connection.peer()),
        false => Peer::connected(connection.peer()),
    }
}
