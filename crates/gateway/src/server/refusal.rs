//! What a connection that is not taken is told: 503, at once and without a look at what was asked.

use std::io::{Read as _, Write as _};
use std::sync::LazyLock;

use tokio::net::TcpStream;

const BODY: &str = r#"{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"There are too many connections, or too little memory for more.","error":"overloaded"}"#;

static ANSWER: LazyLock<String> = LazyLock::new(|| {
    format!(
        "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncache-control: no-store\r\n\
         content-type: application/problem+json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{BODY}",
        BODY.len()
    )
});

/// Says it and closes, and waits for nobody: a client that is refused must not cost what others lack.
pub(super) fn say(socket: TcpStream) {
    let Ok(mut socket) = socket.into_std() else {
        return;
    };
    // Nothing was written yet, so all of it has room.
    let _ = socket.write(ANSWER.as_bytes());
    // As a rule the request has come. If it were left unread, the close would be a reset, which may overtake the answer.
    let _ = socket.read(&mut [0; 4096]);
}
