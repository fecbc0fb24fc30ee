//! A client on the level of bytes. It sends exactly the bytes of a test, in the pieces that the test chooses, and reads the answer.

use std::{
    io::{self, ErrorKind},
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::{Instant, sleep, timeout_at},
};

use crate::Message;

/// A TCP connection without a protocol of its own.
#[derive(Debug)]
pub struct RawClient {
    stream: TcpStream,
    unread: Vec<u8>,
    /// Whether a send failed. The system reports a reset only once. If a send got the report, the next read sees only a close, which then
    /// counts as [`End::Reset`].
    broken: bool,
}

/// The reason why a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The other side closed (FIN).
    Closed,
    /// The connection was reset, or broke otherwise.
    Reset,
    /// The time was over, and the connection was still open.
    Deadline,
}

impl RawClient {
    /// Connects. Panics if that fails.
    pub async fn connect(addr: SocketAddr) -> Self {
        Self::over(dial(None, addr).await)
    }

    /// Connects from a local address, for instance 127.0.0.2, so that the server sees another client. Panics if that fails.
    pub async fn connect_from(from: impl Into<IpAddr>, addr: SocketAddr) -> Self {
        Self::over(dial(Some(from.into()), addr).await)
    }

    fn over(stream: io::Result<TcpStream>) -> Self {
        let stream = stream.unwrap_or_else(|e| panic!("cannot connect: {e}"));
        Self {
            stream,
            unread: Vec::new(),
            broken: false,
        }
    }

    /// Connects, sends all these bytes, and reads until the other side closes or the time `within` is over.
    pub async fn exchange(
        addr: SocketAddr,
        bytes: impl AsRef<[u8]>,
        within: Duration,
    ) -> (Vec<u8>, End) {
        let mut client = Self::connect(addr).await;
        // If the send fails, the bytes were refused. The answer, or its absence, shows the reason.
        _ = client.send(bytes).await;
        client.read_to_close(within).await
    }

    /// Returns the client's own address.
    pub fn local_addr(&self) -> SocketAddr {
        self.stream.local_addr().unwrap()
    }

    /// Sends these bytes. Returns an error if the other side is gone.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let sent = self.stream.write_all(bytes.as_ref()).await;
        self.broken |= sent.is_err();
        sent
    }

    /// Sends the bytes before `at` in one packet, and the other bytes in another. In a pause of 2 ms between them, the other side can read
    /// the first packet. A busy machine may still read both at once.
    pub async fn send_split(&mut self, bytes: impl AsRef<[u8]>, at: usize) -> io::Result<()> {
        let (first, rest) = bytes.as_ref().split_at(at);
        self.send(first).await?;
        sleep(Duration::from_millis(2)).await;
        self.send(rest).await
    }

    /// Closes the sending side (FIN). Reading is still possible.
    pub async fn finish(&mut self) {
        self.stream.shutdown().await.ok();
    }

    /// Resets the connection (RST).
    pub fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }

    /// Reads the next response, which may be a 1xx. Bytes after it are kept for the next call. Errors: `TimedOut` if the response is not
    /// complete `within` this time, `UnexpectedEof` if the connection closed before the response was complete, `InvalidData` if the
    /// response is malformed.
    pub async fn response(&mut self, within: Duration) -> io::Result<Message> {
        self.next_response(false, within).await
    }

    /// Reads a response like [`response`](Self::response), for a HEAD request.
    pub async fn response_to_head(&mut self, within: Duration) -> io::Result<Message> {
        self.next_response(true, within).await
    }

    async fn next_response(&mut self, to_head: bool, within: Duration) -> io::Result<Message> {
        let deadline = Instant::now() + within;
        let mut closed = false;
        loop {
            let read = Message::response(&self.unread, to_head, closed);
            if let Some((response, used)) =
                read.map_err(|e| io::Error::new(ErrorKind::InvalidData, e))?
            {
                self.unread.drain(..used);
                return Ok(response);
            }
            if closed {
                let message = format!("closed after {:?}", String::from_utf8_lossy(&self.unread));
                return Err(io::Error::new(ErrorKind::UnexpectedEof, message));
            }
            closed = timeout_at(deadline, self.stream.read_buf(&mut self.unread)).await?? == 0;
        }
    }

    /// Reads all bytes until the other side closes or the time `within` is over.
    pub async fn read_to_close(&mut self, within: Duration) -> (Vec<u8>, End) {
        let deadline = Instant::now() + within;
        let end = loop {
            match timeout_at(deadline, self.stream.read_buf(&mut self.unread)).await {
                Ok(Ok(0)) if self.broken => break End::Reset,
                Ok(Ok(0)) => break End::Closed,
                Ok(Ok(_)) => {}
                Ok(Err(_)) => break End::Reset,
                Err(_) => break End::Deadline,
            }
        };
        (std::mem::take(&mut self.unread), end)
    }
}

/// Connects from the local address `from`. If `from` is `None`, the system picks the address.
pub(crate) async fn dial(from: Option<IpAddr>, addr: SocketAddr) -> io::Result<TcpStream> {
    let socket = if addr.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    if let Some(from) = from {
        socket.bind((from, 0).into())?;
    }
    let stream = socket.connect(addr).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, RawUpstream, When};

    const LONG: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn an_answer_that_is_late_cut_or_broken_is_no_answer() {
        let kinds = [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1",
                ErrorKind::TimedOut,
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n1",
                ErrorKind::InvalidData,
            ),
        ];
        for (answer, kind) in kinds {
            let upstream = RawUpstream::answering(answer);
            let mut client = RawClient::connect(upstream.addr()).await;
            client.send("GET / HTTP/1.1\r\n\r\n").await.unwrap();
            let error = client
                .response(Duration::from_millis(100))
                .await
                .unwrap_err();
            assert_eq!(error.kind(), kind);
        }
        let upstream = RawUpstream::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1");
        let mut client = RawClient::connect(upstream.addr()).await;
        client.send("GET / HTTP/1.1\r\n\r\n").await.unwrap();
        client.finish().await; // the upstream closes when it has answered
        assert_eq!(
            client.response(LONG).await.unwrap_err().kind(),
            ErrorKind::UnexpectedEof
        );
    }

    #[tokio::test]
    async fn a_reset_that_sending_met_is_still_told() {
        let upstream = RawUpstream::start(When::Accepted, |_| vec![Action::Reset]);
        let mut client = RawClient::connect(upstream.addr()).await;
        while client.send("x").await.is_ok() {
            tokio::task::yield_now().await;
        }
        assert_eq!(client.read_to_close(LONG).await, (vec![], End::Reset));
    }

    #[tokio::test]
    async fn pipelined_answers_come_one_by_one_and_an_address_can_be_chosen() {
        let two = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
        let upstream = RawUpstream::answering(two);
        let mut client = RawClient::connect_from([127, 0, 0, 9], upstream.addr()).await;
        assert_eq!(client.local_addr().ip().to_string(), "127.0.0.9");
        client.send("HEAD / HTTP/1.1\r\n\r\n").await.unwrap();
        assert_eq!(client.response(LONG).await.unwrap().status(), 100);
        assert_eq!(client.response_to_head(LONG).await.unwrap().status(), 200);
    }
}
