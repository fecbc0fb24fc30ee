//! Request heads that hyper refuses. hyper alone would answer with a status and no body, and no limit would count the head. So this module
//! charges the peer's address for the head, counts and logs the head, and answers with a problem document.

use std::sync::Arc;

use http_body_util::BodyExt as _;
use tidegate_net::text::sources;
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use super::Connection;
use crate::client_io::ClientIo;
use crate::refusal;
use crate::service::{RefusedHead, Service, UnparsedHead};

/// The longest request line, in bytes. If a head is too large and its request line exceeds this bound, the answer names the long target as
/// the reason.
const LONGEST_LINE: usize = 8 * 1024;

impl<S: Service> Connection<S> {
    /// Ends an HTTP/1 connection whose last head was refused with `error`; `read` holds the bytes of that head.
    pub(super) async fn refuse_head(&self, mut io: ClientIo, error: &hyper::Error, read: &[u8]) {
        let head = match error.is_parse_too_large() {
            true if has_long_line(read) => UnparsedHead::TargetTooLong,
            true => UnparsedHead::HeadTooLarge,
            false => UnparsedHead::Malformed,
        };
        let ending = async {
            let refused = self.charge(head).await;
            let is_withheld = io.write_again();
            if let Some(response) = refused.response.filter(|_| is_withheld) {
                let (head, mut body) = response.into_parts();
                let mut text = Vec::new();
                while let Some(Ok(frame)) = body.frame().await {
                    text.extend(frame.into_data().unwrap_or_default());
                }
                let answer = refusal::encode(&head, &text);
                io.write_all(&answer).await?;
                io.flush().await?;
            }
            io.shutdown().await
        };
        // A failed write is ignored: it affects only its client.
        drop(timeout(self.timeouts.idle, ending).await);
    }

    /// Charges the peer for HTTP/2 heads that became no requests. Returns true if the peer has used up a limit, so the connection must end.
    pub(super) async fn charge_heads(self: Arc<Self>, count: usize) -> bool {
        for _ in 0..count {
            self.charge(UnparsedHead::Http2).await;
            if self.common.offenders.contain(self.facts.peer.address.ip()) {
                return true;
            }
        }
        false
    }

    /// Charges the peer of an HTTP/2 connection that ended because of too many control frames.
    pub(super) async fn charge_flood(&self) {
        let peer = self.facts.peer.address;
        if self.common.offenders.is_report_due() {
            tracing::warn!(
                %peer,
                "an HTTP/2 connection was closed: too many control frames beside its requests (PING, SETTINGS, WINDOW_UPDATE, \
                 PRIORITY, RST_STREAM or unknown); said once a minute"
            );
        }
        self.charge(UnparsedHead::ControlFrames).await;
    }

    /// Charges the peer for one head.
    async fn charge(&self, head: UnparsedHead) -> RefusedHead<S::Body> {
        let guard = self.activity.request(false);
        let service = self.common.service.load_full();
        let connection = self.info(&service);
        let refused = service.refuse_head(head, connection, guard).await;
        if let Some(refused_for) = refused.used_up {
            let address = self.facts.peer.address;
            self.common.offenders.add(address.ip(), refused_for);
        }
        refused
    }
}

/// Whether the request line is longer than [`LONGEST_LINE`].
fn has_long_line(read: &[u8]) -> bool {
    let end = read.iter().position(|byte| *byte == b'\n');
    end.unwrap_or(read.len()) > LONGEST_LINE
}

/// Whether an HTTP/2 connection ended because the HTTP/2 library found an error in the bytes of the client.
pub(super) fn is_clients_fault(error: &hyper::Error) -> bool {
    let error = sources(error).find_map(|error| error.downcast_ref::<h2::Error>());
    error.is_some_and(|error| error.is_library() && error.reason().is_some())
}
