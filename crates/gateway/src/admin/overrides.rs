//! `/overrides` and `/overrides/{name}`: the overrides that operators set at run time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use tidegate_overrides::Subject;
use tidegate_overrides::port::{Asked, Port, Question};
use tidegate_server::AdminConnection;
use tidegate_tower::problem;
use tokio::time::timeout;

use super::Refusal;
use super::audit::{Audit, to_its_end};
use crate::runtime::reload::Reloader;
use crate::runtime::snapshot::Snapshot;

/// The longest time for a request's body to arrive.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads the body of a request. While the body is still arriving, the connection counts as idle, so that other connections can replace it.
///
/// # Errors
///
/// The body is too long, or does not arrive. The error is the answer.
pub(super) async fn read(
    scope: &Asked,
    head: &Parts,
    body: Incoming,
    connection: &AdminConnection,
) -> Result<Bytes, Refusal> {
    let most = scope.max_body(&head.method);
    connection.idle();
    let read = timeout(PATIENCE, Limited::new(body, most).collect()).await;
    connection.busy();
    let (status, detail) = match read {
        Ok(Ok(body)) => return Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => (
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("The body has more than {most} bytes."),
        ),
        Ok(Err(_)) => (
            StatusCode::BAD_REQUEST,
            "The body cannot be read.".to_owned(),
        ),
        Err(_) => (
            StatusCode::REQUEST_TIMEOUT,
            "The body did not arrive within 10 s.".to_owned(),
        ),
    };
    Err(Box::new(problem(status, "bad_body", &detail)))
}

/// The parts of a gateway that a change of overrides needs.
pub(super) struct Change {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) reloader: Reloader,
    pub(super) audit: Audit,
}

impl Change {
    /// Answers a request and records its changes, even if its client hangs up meanwhile.
    pub(super) async fn answer(self, scope: Asked, head: Parts, body: Bytes) -> Response<Bytes> {
        to_its_end(async move { self.run(&scope, &head, body).await }).await
    }

    async fn run(&self, scope: &Asked, head: &Parts, body: Bytes) -> Response<Bytes> {
        let Self {
            snapshot,
            reloader,
            audit,
        } = self;
        let port = Port {
            overrides: &audit.status.overrides.overrides,
            defined: &snapshot.budgets.overrides,
            clients: &snapshot.budgets.clients,
        };
        let question = Question {
            asked: scope,
            method: &head.method,
            query: head.uri.query().unwrap_or_default(),
            headers: &head.headers,
            body,
            by: &audit.by,
        };
        let answered = port.answer(question).await;
        // The gateway that answers applies the numbers of limits first.
        let mut changed = answered.changed.iter();
        if changed.any(|change| matches!(change.subject, Subject::Limit(_))) {
            // If this fails, the gateway tries again.
            let _ = reloader.apply_numbers().await;
        }
        let metrics = snapshot.stack.metrics.overrides();
        metrics.changed("made", answered.changed.len());
        metrics.changed("refused", answered.refused);
        metrics.changed("failed", answered.failed.iter().count());
        audit.overridden(&answered.changed).await;
        if let Some((whom, error)) = &answered.failed {
            audit.override_failed(whom, error);
        }
        answered.response
    }
}
