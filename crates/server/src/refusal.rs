//! Answers that are written without hyper, for refused connections and for heads that cannot be read.

use std::io::{Read as _, Write as _};

use http::header::{CONNECTION, CONTENT_LENGTH};
use http::response::Parts;
use tokio::net::TcpStream;

/// Returns the bytes of an answer after which the connection closes.
pub(crate) fn encode(head: &Parts, body: &[u8]) -> Vec<u8> {
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

/// Writes an answer and closes the connection at once: a refused connection must not use resources that other connections need.
pub(crate) fn send(socket: TcpStream, answer: &[u8]) {
    let Ok(mut socket) = socket.into_std() else {
        return;
    };
    // This is the first write on the socket, so the socket's buffer has room for the whole answer.
    let _ = socket.write(answer);
    // Reads the request, which has usually arrived. If the request were left unread, the close would reset the connection, and the reset
    // may overtake the answer.
    let _ = socket.read(&mut [0; 4096]);
}
