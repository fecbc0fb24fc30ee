//! The last steps of a request, after its limits or its upstream have answered: metrics, the data of the log, headers, and the body that
//! ends the request.

use http::header::CONNECTION;
use http::{HeaderValue, Response, StatusCode};
use tidegate_server::{ConnectionInfo, Dropped, ProxyHeader};
use tidegate_telemetry::{RequestId, RequestOutcome};

use super::{Route, Stack};
use crate::body::{Body, take_answered};
use crate::forward::identify;
use crate::request::grpc;
use crate::request::record::{AnsweredBy, Ended, RequestEnd};

/// The last steps of a request, with the data that they need.
#[derive(Debug)]
pub(super) struct LastSteps<'s> {
    pub(super) stack: &'s Stack,
    /// The route that serves the request; `None` if no route matches, or if the request is shed or malformed.
    pub(super) route: Option<&'s Route>,
    pub(super) end: Box<RequestEnd>,
    /// The ID for the answer; `None` if answers have no ID.
    pub(super) request_id: Option<RequestId>,
    pub(super) connection: ConnectionInfo,
    /// The content type of a gRPC call.
    pub(super) call: Option<HeaderValue>,
    /// The `Origin` of the request, if its route has `cors`.
    pub(super) origin: Option<HeaderValue>,
    /// The status of the problem, if the request is refused before its limits.
    pub(super) problem: Option<StatusCode>,
    /// Whether the connection must be closed after the answer.
    pub(super) closes: bool,
    pub(super) is_shed: bool,
    pub(super) is_unnamed: bool,
    pub(super) is_ask: bool,
}

impl LastSteps<'_> {
    /// Completes the answer.
    pub(super) fn finish(self, mut response: Response<Body>) -> Result<Response<Ended>, Dropped> {
        let Self {
            stack,
            route,
            mut end,
            request_id,
            connection,
            is_ask,
            ..
        } = self;
        let answered = take_answered(&mut response);
        if let Some(route) = route.filter(|_| !is_ask) {
            route.adapt(&mut response, &answered, self.origin);
        }
        if self.closes {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        let by = end.answered(answered, response.status(), request_id.as_ref());
        if self.is_shed {
            end.shed();
        }
        // If a trusted proxy names no client, the operator gets a report only when a limit refuses the request, because clients may then
        // share the proxy's budget. The proxy's own health checks name no client either, and cause no report.
        if self.is_unnamed
            && matches!(
                end.outcome(),
                RequestOutcome::Limited | RequestOutcome::Dropped
            )
        {
            stack.report_proxy(ProxyHeader::Missing, &connection);
        }
        match (by, self.call) {
            // A proxy that asks needs an answer in any case.
            (AnsweredBy::Nobody, _) if is_ask => {}
            (AnsweredBy::Nobody, _) => return Err(Dropped::default()),
            (AnsweredBy::Gateway, Some(kind)) => {
                // The configuration may have changed the answer's status, so `grpc::translate` gets the original status.
                let meant = match end.outcome() {
                    RequestOutcome::Limited => Some(StatusCode::TOO_MANY_REQUESTS),
                    RequestOutcome::Rejected => self.problem,
                    _ => None,
                };
                response = grpc::translate(response, kind, meant);
            }
            (AnsweredBy::Gateway | AnsweredBy::Upstream, _) => {}
        }
        if by == AnsweredBy::Gateway && !is_ask {
            let own_headers = route.map_or(&stack.own_headers, |route| &route.own_headers);
            own_headers.write(response.headers_mut());
        }
        identify(&mut response, request_id);
        let Some(tunnel) = response.body_mut().take_tunnel() else {
            let stops = connection.drain();
            return Ok(response.map(|body| Ended::new(body, end).until(stops)));
        };
        let drain = connection.drain().clone();
        tokio::spawn(async move {
            let open = end.tunnels();
            let closed = tunnel.run(drain).await;
            // The request's log line must be written before the client's connection closes, because the gateway stops after its last
            // connection.
            drop((end, open));
            drop(closed);
        });
        Ok(response.map(Ended::without_end))
    }
}
