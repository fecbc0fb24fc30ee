//! What a connection that is not taken is told: 503, at once and without a look at what was asked.

use std::io::{Read as _, Write as _};
use std::sync::LazyLock;

use http::header::{CONNECTION, CONTENT_LENGTH, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use tokio::net::TcpStream;

static ANSWER: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let (head, body) = tidegate_tower::problem(
        StatusCode::SERVICE_UNAVAILABLE,
        "overloaded",
        "There are too many connections, or too little memory for more.",
    )
    .into_parts();
    let mut headers = head.headers;
    headers.insert(RETRY_AFTER, 1.into());
    headers.insert(CONTENT_LENGTH, body.len().into());
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    let mut answer = format!("HTTP/1.1 {}\r\n", head.status).into_bytes();
    for (name, value) in &headers {
        let line = [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"];
        answer.extend_from_slice(&line.concat());
    }
    answer.extend_from_slice(b"\r\n");
    answer.extend_from_slice(&body);
    answer
});

/// Says it and closes, and waits for nobody: a client that is refused must not cost what others lack.
pub(super) fn say(socket: TcpStream) {
    let Ok(mut socket) = socket.into_std() else {
        return;
    };
    // Nothing was written yet, so all of it has room.
    let _ = socket.write(&ANSWER);
    // As a rule the request has come. If it were left unread, the close would be a reset, which may overtake the answer.
    let _ = socket.read(&mut [0; 4096]);
}
