//! The accept loop of all servers of this crate. It can close, and open again on the same port. Its connections can be closed or kept.

use std::{
    fmt,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
    time::sleep,
};

use crate::Port;

type Serve = dyn Fn(TcpStream) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

/// A port, its accept loop, and its connections. All of them end when it is dropped.
pub(crate) struct Listener {
    port: Port,
    served: Arc<Served>,
    accepting: Mutex<Option<JoinHandle<()>>>,
}

struct Served {
    serve: Box<Serve>,
    connections: Mutex<JoinSet<()>>,
    accepted: AtomicUsize,
}

impl Listener {
    /// Listens on a free port. `serve` runs as a task of its own for each connection.
    pub(crate) fn open<F, Fut>(serve: F) -> Self
    where
        F: Fn(TcpStream) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let served = Served {
            serve: Box::new(move |stream| Box::pin(serve(stream))),
            connections: Mutex::default(),
            accepted: AtomicUsize::new(0),
        };
        let listener = Self {
            port: Port::reserve(),
            served: Arc::new(served),
            accepting: Mutex::default(),
        };
        listener.reopen();
        listener
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// Returns the number of connections that were ever accepted.
    pub(crate) fn accepted(&self) -> usize {
        self.served.accepted.load(Ordering::Relaxed)
    }

    /// Accepts again after [`close`](Self::close). Has no effect if the port is open.
    pub(crate) fn reopen(&self) {
        self.accepting.lock().unwrap().get_or_insert_with(|| {
            let (listener, served) = (self.port.listen(), Arc::clone(&self.served));
            tokio::spawn(async move { served.accept(listener).await })
        });
    }

    /// Refuses new connections from now on. Open connections stay open.
    pub(crate) async fn close(&self) {
        let accepting = self.accepting.lock().unwrap().take();
        if let Some(accepting) = accepting {
            accepting.abort();
            _ = accepting.await; // its listener closes only when the task has ended
        }
    }

    /// Ends every open connection.
    pub(crate) async fn clear(&self) {
        let mut connections = std::mem::take(&mut *self.served.connections.lock().unwrap());
        connections.shutdown().await;
    }
}

impl Served {
    async fn accept(&self, listener: TcpListener) {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // For example, the process has no file descriptors left. The loop waits, because no event signals a free descriptor.
                sleep(Duration::from_millis(10)).await;
                continue;
            };
            stream.set_nodelay(true).ok();
            self.accepted.fetch_add(1, Ordering::Relaxed);
            let mut connections = self.connections.lock().unwrap();
            while connections.try_join_next().is_some() {}
            connections.spawn((self.serve)(stream));
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(accepting) = self.accepting.lock().unwrap().take() {
            accepting.abort();
        }
        self.served.connections.lock().unwrap().abort_all();
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("addr", &self.addr())
            .field("accepted", &self.accepted())
            .finish_non_exhaustive()
    }
}
