//! Reads the rest of an answer after its client has left, to find the cost of the request.

use std::time::Duration;

use bytes::Buf as _;
use http_body_util::BodyExt as _;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::Body;

/// The longest time to read an answer after its client has left.
const LONGEST: Duration = Duration::from_secs(5);

/// The most bytes to read of an answer after its client has left, counted before any decompression.
const MOST: usize = 1 << 20;

/// Reads the rest of a body, within [`LONGEST`] and [`MOST`]. `read` reads a part, or only its beginning, and returns the number of bytes
/// read.
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
                // Decompressing a part can take long, so other tasks run in between.
                yield_now().await;
            }
            if bytes >= MOST {
                return;
            }
        }
    };
    let _ = timeout(LONGEST, reading).await;
}
