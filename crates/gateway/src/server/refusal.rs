//! What a connection that is not taken is told: 503, at once and without a look at what was asked.

use std::io::{Read as _, Write as _};
use std::sync::LazyLock;

use http::StatusCode;
use http::header::{CONNECTION, CONTENT_LENGTH, RETRY_AFTER};
use http::response::Parts;
use tokio::net::TcpStream;

static ANSWER: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let (mut head, body) = tidegate_tower::problem(
        StatusCode::SERVICE_UNAVAILABLE,
        "overloaded",
        "There are too many connections, or too little memory for more.",
    )
    .into_parts();
    head.headers.insert(RETRY_AFTER, 1.into());
    encode(&head, &body)
});

/// An answer after which the connection closes, as it is sent.
pub(super) fn encode(head: &Parts, body: &[u8]) -> Vec<u8> {
    let own = [CONTENT_LENGTH, CONNECTION];
    let mut answer = format!(
        "HTTP/1.1 {}\r\n{CONTENT_LENGTH}: {}\r\n{CONNECTION}: close\r\n",
        head.status,
        body.len()
    )
    .into_bytes();
    for (name, value) in head.headers.iter().filter(|(name, _)| !own.contains(name)) {
        let line = [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"];
        answer.extend_from_slice(&line.concat());
    }
    answer.extend_from_slice(b"\r\n");
    answer.extend_from_slice(body);
    answer
}

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
