//! Requests whose head the protocol refuses. The library that reads heads would answer with a status alone, and nobody would
//! hear of it: here such a head is charged to the peer's address, counted, logged, and answered with a problem.

use std::error::Error as _;
use std::sync::Arc;

use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use super::client_io::ClientIo;
use super::conversation::Conversation;
use super::refusal;
use crate::body::Body;
use crate::outcome::Unparsed;

/// The longest request line that is refused for another reason than its length.
const LONGEST_LINE: usize = 8 * 1024;

impl Conversation {
    /// Ends a connection of HTTP/1 whose last head was refused with `error`; `read` is what came of that head.
    pub(super) async fn refuse_head(&self, mut io: ClientIo, error: &hyper::Error, read: &[u8]) {
        let unparsed = match error.is_parse_too_large() {
            true if has_long_line(read) => Unparsed::TargetTooLong,
            true => Unparsed::HeadTooLarge,
            false => Unparsed::Malformed,
        };
        let ending = async {
            let response = self.charge(unparsed).await;
            let is_withheld = io.write_again();
            if let Some(response) = response.filter(|_| is_withheld) {
                let (head, body) = response.into_parts();
                let text = body.whole().map_or(&[][..], |body| body);
                let answer = refusal::encode(&head, text);
                io.write_all(&answer).await?;
                io.flush().await?;
            }
            io.shutdown().await
        };
        // It concerns its client alone whether the answer arrived.
        drop(timeout(self.idle, ending).await);
    }

    /// Charges heads of HTTP/2 that became no requests; whether the connection is to end.
    pub(super) async fn charge_heads(self: Arc<Self>, count: usize) -> bool {
        for _ in 0..count {
            self.charge(Unparsed::Http2).await;
            if self.offenders.contain(self.peer.address.ip()) {
                return true;
            }
        }
        false
    }

    /// Charges one head, and gives the answer to it, if it gets one.
    async fn charge(&self, unparsed: Unparsed) -> Option<http::Response<Body>> {
        let in_request = self.activity.request(false);
        let in_force = self.current.load_full();
        let frontend = &in_force.frontend;
        let refused = frontend.refuse_head(unparsed, self.peer, in_request).await;
        if let Some(refused_for) = refused.used_up {
            self.offenders.add(self.peer.address.ip(), refused_for);
        }
        refused.response
    }
}

/// Whether a request line is too long to be one.
fn has_long_line(read: &[u8]) -> bool {
    let end = read.iter().position(|byte| *byte == b'\n');
    end.unwrap_or(read.len()) > LONGEST_LINE
}

/// Whether HTTP/2 ended because of what the client sent.
pub(super) fn is_clients_fault(error: &hyper::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            return error.is_library() && error.reason().is_some();
        }
        cause = error.source();
    }
    false
}
