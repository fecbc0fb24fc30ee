//! An upstream of HTTP/2 without TLS whose handler decides about single frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use http::{Request, Response};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Counts its connections and requests. Ends with the runtime of its test.
pub(crate) struct H2c {
    pub(crate) url: String,
    connections: Arc<AtomicUsize>,
    requests: Arc<watch::Sender<usize>>,
}

/// A request, and its number.
pub(crate) struct Asked {
    pub(crate) number: usize,
    pub(crate) request: Request<RecvStream>,
    pub(crate) respond: SendResponse<Bytes>,
}

impl H2c {
    /// Handles each request in a task of its own.
    pub(crate) async fn start<F, Fut>(builder: Builder, handler: F) -> Self
    where
        F: Fn(Asked) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = Self {
            url: format!("h2c://{}", listener.local_addr().unwrap()),
            connections: Arc::default(),
            requests: Arc::default(),
        };
        let handler = Arc::new(handler);
        let (connections, requests) = (upstream.connections.clone(), upstream.requests.clone());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.fetch_add(1, Ordering::Relaxed);
                let (builder, handler) = (builder.clone(), handler.clone());
                let requests = requests.clone();
                tokio::spawn(async move {
                    let mut running = JoinSet::new();
                    let mut accepting = builder.handshake(stream).await.unwrap();
                    while let Some(Ok((request, respond))) = accepting.accept().await {
                        let mut number = 0;
                        requests.send_modify(|requests| {
                            number = *requests;
                            *requests += 1;
                        });
                        running.spawn(handler(Asked {
                            number,
                            request,
                            respond,
                        }));
                    }
                });
            }
        });
        upstream
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn requests(&self) -> usize {
        *self.requests.borrow()
    }

    /// Waits until so many requests have arrived.
    pub(crate) async fn wait_for(&self, number: usize) {
        let mut requests = self.requests.subscribe();
        let arrived = requests.wait_for(|requests| *requests >= number);
        let arrived = tokio::time::timeout(crate::bench::LONG, arrived).await;
        assert!(arrived.is_ok(), "{} of {number} arrived", self.requests());
    }
}

impl Asked {
    /// Reads the body to its end, and answers with it.
    pub(crate) async fn echo(mut self) {
        let mut body = Vec::new();
        let incoming = self.request.body_mut();
        while let Some(part) = incoming.data().await {
            let Ok(part) = part else { return };
            _ = incoming.flow_control().release_capacity(part.len());
            body.extend(part);
        }
        self.answer(body);
    }

    /// Answers with this body.
    pub(crate) fn answer(mut self, body: impl Into<Bytes>) {
        let sending = self.respond.send_response(Response::new(()), false);
        if let Ok(mut sending) = sending {
            _ = sending.send_data(body.into(), true);
        }
    }

    /// Says that nothing was done with the request.
    pub(crate) fn refuse(mut self) {
        self.respond.send_reset(Reason::REFUSED_STREAM);
    }
}
