//! Reads the rest of an answer whose client has left, for the cost of the request.

use std::time::Duration;

use bytes::Buf as _;
use http_body_util::BodyExt as _;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::Body;

/// The longest time to read an answer without its client.
const LONGEST: Duration = Duration::from_secs(5);

/// The most bytes of it that are read, compressed or not.
const MOST: usize = 1 << 20;

/// Reads the rest of a body, within these bounds. `read` reads a part, or its beginning, and returns how many bytes it has read.
pub(crate) async fn read_on(body: &mut Body, mut read: impl FnMut(&[u8]) -> usize) {
    let reading = async {
        let mut bytes = 0;
        while let Some(Ok(frame)) = body.frame().await {
            let Ok(mut part) = frame.into_data() else {
                return;
            };
            bytes += part.len();
            while !part.is_empty() {
                part.advance(read(&part));
                // To decompress a part can take long.
                yield_now().await;
            }
            if bytes >= MOST {
                return;
            }
        }
    };
    let _ = timeout(LONGEST, reading).await;
}
