//! The end of an exchange, as the selection of servers counts it.

use std::sync::Arc;

use http::{Response, StatusCode};
use hyper::body::Incoming;

use super::background::Background;
use super::health::Served;
use super::server::Server;
use super::server::connection::Lease;
use super::sticky::ServerMark;

/// The beginning of an answer.
#[derive(Debug)]
pub struct Answer {
    /// Its head, and the body that comes behind it.
    pub response: Response<Incoming>,
    /// The connection on which it comes.
    pub lease: Lease,
    /// Notes the end of the answer; `None`: the status is a failure of the server, or no server is ejected.
    pub report: Option<Report>,
    /// The name of the server in cookies, if the upstream sets them.
    pub mark: Option<ServerMark>,
}

/// The end of an answer that is not noted yet. A dropped report notes no end: the client has left.
#[derive(Debug)]
pub struct Report {
    background: Arc<Background>,
    server: Arc<Server>,
    before: Served,
}

impl Report {
    /// Begins the report of an answer with this status, to a request that was sent at the time of `before`. A status that is a
    /// failure ends the report at once.
    pub(crate) fn begin(
        background: &Arc<Background>,
        server: &Arc<Server>,
        before: Served,
        status: StatusCode,
    ) -> Option<Self> {
        if background.plan.eject.as_ref()?.counts(status) {
            background.failed(server, before);
            return None;
        }
        Some(Self {
            background: background.clone(),
            server: server.clone(),
            before,
        })
    }

    /// Notes that the server has sent the whole answer.
    pub fn succeeded(self) {
        self.background.succeeded(&self.server);
    }

    /// Notes that the server broke off its answer.
    pub fn failed(self) {
        self.background.failed(&self.server, self.before);
    }
}
