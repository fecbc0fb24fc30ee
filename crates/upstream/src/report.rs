//! Reports whether an exchange with a server succeeded or failed. These reports decide whether the server is ejected.

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
    /// The head, and the body, which the caller must read.
    pub response: Response<Incoming>,
    /// The connection of the answer.
    pub lease: Lease,
    /// Reports the end of the answer. `None` if the status was already reported as a failure, or if the upstream never ejects servers.
    pub report: Option<Report>,
    /// The mark of the server for a cookie, if the upstream sets cookies.
    pub mark: Option<ServerMark>,
}

/// An answer whose end is not reported yet. A drop means that the client has left, and reports neither success nor failure of the server.
#[derive(Debug)]
pub struct Report {
    background: Arc<Background>,
    server: Arc<Server>,
    before: Served,
}

impl Report {
    /// Begins the report of an answer. `before` has the counts of served requests from the time when the request was sent. A status that
    /// counts as a failure is reported at once.
    pub(crate) fn begin(
        background: &Arc<Background>,
        server: &Arc<Server>,
        before: Served,
        status: StatusCode,
    ) -> Option<Self> {
        if background.settings.eject.as_ref()?.counts(status) {
            background.failed(server, before);
            return None;
        }
        Some(Self {
            background: background.clone(),
            server: server.clone(),
            before,
        })
    }

    /// Reports that the server has sent the whole answer.
    pub fn succeeded(self) {
        self.background.succeeded(&self.server);
    }

    /// Reports that the server broke off its answer.
    pub fn failed(self) {
        self.background.failed(&self.server, self.before);
    }
}
