//! An upstream on the level of bytes. It keeps all bytes that it receives, and answers with the bytes of a test's script, which may be
//! broken HTTP.

use std::{net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, tcp::WriteHalf},
    sync::{Notify, mpsc, watch},
    time::{sleep, timeout},
};

use crate::{Malformed, Message, http1, listener::Listener};

/// A TCP server that logs every byte and plays a script. Ends when dropped.
///
/// To refuse connections, use a [`Port`](crate::Port) without a listener. To leave connections unaccepted, use [`Silent`](crate::Silent).
#[derive(Debug)]
pub struct RawUpstream {
    listener: Listener,
    seen: Arc<watch::Sender<Seen>>,
}

/// The point at which the script runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Once per connection, as soon as it is accepted.
    Accepted,
    /// After the head of each request, without waiting for its body.
    Head,
    /// After each complete request.
    Request,
}

/// The data that each run of the script receives.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The number of the connection, from 0 in the order they were accepted.
    pub connection: usize,
    /// The number of the request on this connection, from 0.
    pub request: usize,
    /// The bytes of the request that had arrived by this point: none, its head, or all (see [`When`]).
    pub bytes: Bytes,
}

/// One step of a script on a connection. During the step, the connection is still read and logged.
#[derive(Clone, Debug)]
pub enum Action {
    /// Sends these bytes.
    Send(Bytes),
    /// Sends these bytes again and again, until the other side is gone.
    Repeat(Bytes),
    /// Waits until the test calls `notify_one`. Each call ends one wait.
    Until(Arc<Notify>),
    /// Waits for a time.
    Pause(Duration),
    /// Sends no more bytes, and leaves the connection open.
    Hang,
    /// Closes the sending side (FIN), then only reads until the other side closes, too.
    Close,
    /// Resets the connection (RST) at once.
    Reset,
}

#[derive(Debug, Default)]
struct Seen {
    connections: Vec<Vec<u8>>,
    requests: Vec<Message>,
    malformed: Vec<Malformed>,
}

impl Action {
    /// Returns [`Action::Send`] of text or bytes.
    pub fn send(bytes: impl Into<Bytes>) -> Self {
        Self::Send(bytes.into())
    }
}

impl RawUpstream {
    /// Starts a server, from within a tokio runtime. After bytes that are no strict HTTP/1.1 request, the server closes the connection, and
    /// [`malformed`](Self::malformed) has these bytes.
    pub fn start(when: When, script: impl Fn(Turn) -> Vec<Action> + Send + Sync + 'static) -> Self {
        let script = Arc::new(script);
        let seen = Arc::new(watch::Sender::new(Seen::default()));
        let log = Arc::clone(&seen);
        let listener = Listener::open(move |stream| {
            let connection = log.borrow().connections.len();
            log.send_modify(|seen| seen.connections.push(Vec::new()));
            let (script, log) = (Arc::clone(&script), Arc::clone(&log));
            async move {
                Guest {
                    connection,
                    when,
                    log: &log,
                }
                .serve(stream, &*script)
                .await
            }
        });
        Self { listener, seen }
    }

    /// Answers each complete request with the same bytes.
    pub fn answering(bytes: impl Into<Bytes>) -> Self {
        let answer = Action::send(bytes);
        Self::start(When::Request, move |_| vec![answer.clone()])
    }

    /// Returns the address that the server listens on.
    pub fn addr(&self) -> SocketAddr {
        self.listener.addr()
    }

    /// Returns `http://127.0.0.1:PORT`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr())
    }

    /// Returns every byte received so far, by connection.
    pub fn seen(&self) -> Vec<Vec<u8>> {
        self.seen.borrow().connections.clone()
    }

    /// Whether this text was received on any connection, in a head or in a body.
    pub fn saw(&self, text: &str) -> bool {
        self.seen.borrow().connections.iter().any(|bytes| {
            let mut parts = bytes.windows(text.len());
            parts.any(|part| part == text.as_bytes())
        })
    }

    /// Returns the complete requests so far, in the order in which they were complete.
    pub fn requests(&self) -> Vec<Message> {
        self.seen.borrow().requests.clone()
    }

    /// Returns the received bytes that are no strict HTTP/1.1.
    pub fn malformed(&self) -> Vec<Malformed> {
        self.seen.borrow().malformed.clone()
    }

    /// Waits until `enough` returns true for the received bytes. Panics, with the bytes, if that takes longer than `within`.
    pub async fn wait_for(&self, within: Duration, mut enough: impl FnMut(&[Vec<u8>]) -> bool) {
        let mut seen = self.seen.subscribe();
        if timeout(within, seen.wait_for(|seen| enough(&seen.connections)))
            .await
            .is_err()
        {
            let seen = self.seen();
            let seen: Vec<_> = seen
                .iter()
                .map(|bytes| String::from_utf8_lossy(bytes))
                .collect();
            panic!("within {within:?} only this was received: {seen:#?}");
        }
    }
}

/// One connection.
struct Guest<'a> {
    connection: usize,
    when: When,
    log: &'a watch::Sender<Seen>,
}

/// The way in which the script ended on a connection.
#[derive(PartialEq)]
enum Played {
    ToTheEnd,
    Reset,
}

impl Guest<'_> {
    async fn serve(self, mut stream: TcpStream, script: &(impl Fn(Turn) -> Vec<Action> + Sync)) {
        let (turns, queue) = mpsc::unbounded_channel();
        let played = {
            let (reader, writer) = stream.split();
            let mut reading = pin!(self.read(reader, turns));
            let mut playing = pin!(play(writer, queue, script));
            tokio::select! {
                played = &mut playing => {
                    if played == Played::ToTheEnd {
                        reading.await;
                    }
                    played
                }
                () = &mut reading => playing.await,
            }
        };
        if played == Played::Reset {
            stream.set_zero_linger().ok();
        }
    }

    /// Logs all bytes until the other side closes, and queues a turn of the script for each request.
    async fn read(&self, mut reader: impl AsyncRead + Unpin, turns: mpsc::UnboundedSender<Turn>) {
        let turn = |request, bytes: &[u8]| Turn {
            connection: self.connection,
            request,
            bytes: Bytes::copy_from_slice(bytes),
        };
        if self.when == When::Accepted {
            turns.send(turn(0, &[])).ok();
        }
        let mut open = Some(turns); // the script ends with the queue of its turns
        let mut unread = Vec::new();
        let mut requests = 0;
        let mut head_taken = false;
        loop {
            let before = unread.len();
            if !matches!(reader.read_buf(&mut unread).await, Ok(1..)) {
                return;
            }
            self.log.send_modify(|seen| {
                seen.connections[self.connection].extend_from_slice(&unread[before..])
            });
            while let (Some(turns), false) = (&open, unread.is_empty()) {
                if self.when == When::Head
                    && !head_taken
                    && let Ok(Some((_, length))) = http1::head(&unread)
                {
                    turns.send(turn(requests, &unread[..length])).ok();
                    head_taken = true;
                }
                match Message::request(&unread) {
                    Ok(Some((request, length))) => {
                        self.log.send_modify(|seen| seen.requests.push(request));
                        if self.when == When::Request {
                            turns.send(turn(requests, &unread[..length])).ok();
                        }
                        unread.drain(..length);
                        requests += 1;
                        head_taken = false;
                    }
                    Ok(None) => break,
                    Err(malformed) => {
                        self.log.send_modify(|seen| seen.malformed.push(malformed));
                        open = None;
                    }
                }
            }
        }
    }
}

/// Plays the script's actions, one turn after the other.
async fn play(
    mut writer: WriteHalf<'_>,
    mut turns: mpsc::UnboundedReceiver<Turn>,
    script: &impl Fn(Turn) -> Vec<Action>,
) -> Played {
    'turns: while let Some(turn) = turns.recv().await {
        for action in script(turn) {
            match action {
                Action::Send(bytes) => _ = writer.write_all(&bytes).await,
                Action::Repeat(bytes) => while writer.write_all(&bytes).await.is_ok() {},
                Action::Until(notify) => notify.notified().await,
                Action::Pause(time) => sleep(time).await,
                Action::Hang => std::future::pending().await,
                Action::Close => break 'turns,
                Action::Reset => return Played::Reset,
            }
        }
    }
    writer.shutdown().await.ok();
    Played::ToTheEnd
}

#[cfg(test)]
mod tests;
