//! Clients of a Service, who know of every request what became of it.

use std::error::Error as _;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use http::{HeaderMap, Request, StatusCode, Version, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpSocket;

use super::cluster::Service;
use crate::kit::LONG;

type Body = Empty<Bytes>;

/// A connection that is given up now and then has had so many requests.
const MANY: usize = 20;

pub(super) struct Rider {
    pub(super) from: IpAddr,
    pub(super) service: Service,
    pub(super) is_http2: bool,
    pub(super) changes_connections: bool,
    pub(super) thinks: Duration,
}

/// What became of a rider's requests.
pub(super) struct Ridden {
    pub(super) from: IpAddr,
    pub(super) sent: usize,
    pub(super) admitted: usize,
    pub(super) refused: usize,
    pub(super) connections: usize,
    /// Those that no server began with, since the connection ended before: any client sends them on another.
    pub(super) unsent: usize,
    /// Those without an answer, or with one that is neither the API's nor a limit's.
    pub(super) lost: Vec<String>,
    began: Instant,
    ended: Instant,
}

impl Ridden {
    /// How many a bucket allows in the time that it took.
    pub(super) fn allowed(&self, capacity: usize, a_second: u128) -> usize {
        let refilled = (self.ended - self.began).as_micros() * a_second / 1_000_000;
        capacity + usize::try_from(refilled).unwrap()
    }
}

enum Connection {
    Http1(http1::SendRequest<Body>),
    Http2(http2::SendRequest<Body>),
}

impl Rider {
    /// Sends one request after the other until the Service is closed.
    pub(super) async fn ride(self) -> Ridden {
        let mut ridden = Ridden {
            from: self.from,
            sent: 0,
            admitted: 0,
            refused: 0,
            connections: 0,
            unsent: 0,
            lost: Vec::new(),
            began: Instant::now(),
            ended: Instant::now(),
        };
        let mut kept = None;
        while !self.service.is_closed() {
            ridden.sent += 1;
            match self.ask(&mut kept, &mut ridden).await {
                Ok(StatusCode::OK) => ridden.admitted += 1,
                Ok(StatusCode::TOO_MANY_REQUESTS) => ridden.refused += 1,
                Ok(other) => ridden.lost.push(format!("answered {other}")),
                Err(error) => ridden.lost.push(error),
            }
            if self.changes_connections && ridden.sent.is_multiple_of(MANY) {
                kept = None;
            }
            tokio::time::sleep(self.thinks).await;
        }
        ridden.ended = Instant::now();
        ridden
    }

    async fn ask(
        &self,
        kept: &mut Option<Connection>,
        ridden: &mut Ridden,
    ) -> Result<StatusCode, String> {
        loop {
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => {
                    ridden.connections += 1;
                    let address = self.service.next();
                    let connecting = self.connect(address);
                    let connected = connecting.await;
                    connected.map_err(|error| format!("no connection to {address}: {error}"))?
                }
            };
            let answering = tokio::time::timeout(LONG, connection.send());
            let answering = answering.await.map_err(|_| "no answer".to_owned())?;
            match answering {
                Ok((status, headers)) => {
                    if headers
                        .get(header::CONNECTION)
                        .is_none_or(|it| it != "close")
                    {
                        *kept = Some(connection);
                    }
                    return Ok(status);
                }
                Err(None) => ridden.unsent += 1,
                Err(Some(error)) => return Err(error),
            }
        }
    }

    async fn connect(&self, address: SocketAddr) -> Result<Connection, String> {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((self.from, 0).into()).unwrap();
        let stream = socket.connect(address).await.map_err(|e| e.to_string())?;
        stream.set_nodelay(true).unwrap();
        let stream = TokioIo::new(stream);
        if self.is_http2 {
            let opened = http2::handshake(TokioExecutor::new(), stream).await;
            let (sender, connection) = opened.map_err(|e| e.to_string())?;
            tokio::spawn(connection);
            Ok(Connection::Http2(sender))
        } else {
            let (sender, connection) = http1::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            Ok(Connection::Http1(sender))
        }
    }
}

impl Connection {
    /// Status and headers of the answer, once all of it was read. An error without a word is a request that no server
    /// began with.
    async fn send(&mut self) -> Result<(StatusCode, HeaderMap), Option<String>> {
        let answer = match self {
            Self::Http1(sender) => {
                sender.ready().await.map_err(|_| None)?;
                let request = Request::get("/api/rides").header(header::HOST, "api");
                sender
                    .try_send_request(request.body(Body::new()).unwrap())
                    .await
            }
            Self::Http2(sender) => {
                sender.ready().await.map_err(|_| None)?;
                let request = Request::get("http://api/api/rides").version(Version::HTTP_2);
                sender
                    .try_send_request(request.body(Body::new()).unwrap())
                    .await
            }
        };
        let (head, body) = answer.map_err(said)?.into_parts();
        body.collect()
            .await
            .map_err(|error| Some(format!("half an answer: {error:?}")))?;
        Ok((head.status, head.headers))
    }
}

/// What went wrong. None if nothing of the request was sent, or the server says that it began with nothing of it. Both may be sent
/// again, whatever they ask for.
fn said(mut error: TrySendError<Request<Body>>) -> Option<String> {
    if error.take_message().is_some() {
        return None;
    }
    let error = error.into_error();
    let by_http2 = error
        .source()
        .and_then(|error| error.downcast_ref::<h2::Error>());
    let is_untouched = by_http2.is_some_and(|error| {
        error.is_remote() && error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR)
    });
    (!is_untouched).then(|| format!("{error:?}"))
}
