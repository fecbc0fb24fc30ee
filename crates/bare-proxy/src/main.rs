//! A proxy for the comparison of gateways: it shows the cost of hyper, tokio and fred alone. It only forwards or refuses requests. If an
//! argument names a Redis server, it calls Redis for each request. It has no limits, no timeouts, no headers of its own and no metrics, so
//! it has no other use.

#![expect(clippy::print_stderr, reason = "a command says why it ends")]

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use clap::Parser;
use fred::clients::Client;
use fred::interfaces::{ClientLike as _, LuaInterface as _};
use fred::types::Builder;
use fred::types::config::Config;
use http::{HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

// The same allocator as the gateway's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A proxy that only forwards requests.
#[derive(Debug, Parser)]
struct Arguments {
    /// Where it listens.
    #[arg(long)]
    listen: SocketAddr,
    /// Whom it forwards to.
    #[arg(long)]
    upstream: SocketAddr,
    /// The number of requests that it forwards. It answers 429 to all later requests. Default: all
    #[arg(long)]
    admit: Option<usize>,
    /// A Redis, as redis://host:port, that runs a small script for each request. Default: none
    #[arg(long)]
    redis: Option<String>,
}

/// A script with about the least work of a limiter: it reads a number, adds to it, and writes it back with an expiry.
const SCRIPT: &str = "local used = tonumber(redis.call('GET', KEYS[1]) or 0) + ARGV[1]
redis.call('SET', KEYS[1], used, 'PX', 60000)
return used";

/// The connection to Redis, and the digest of the script.
struct Counter {
    client: Client,
    sha: String,
}

impl Counter {
    async fn connect(url: &str) -> Result<Self, fred::error::Error> {
        let client = Builder::from_config(Config::from_url(url)?).build()?;
        client.init().await?;
        let sha = client.script_load(SCRIPT).await?;
        Ok(Self { client, sha })
    }

    async fn count(&self) -> Result<u64, fred::error::Error> {
        self.client.evalsha(&*self.sha, "bare-proxy", 1).await
    }
}

/// The upstream's address, and the idle connections to it.
struct Upstream {
    address: SocketAddr,
    idle: Mutex<Vec<SendRequest<Incoming>>>,
}

impl Upstream {
    async fn send(&self, request: Request<Incoming>) -> io::Result<Response<Incoming>> {
        let mut sender = match self.kept() {
            Some(sender) => sender,
            None => {
                let socket = TcpStream::connect(self.address).await?;
                socket.set_nodelay(true)?;
                let (sender, connection) = handshake(TokioIo::new(socket))
                    .await
                    .map_err(io::Error::other)?;
                tokio::spawn(connection);
                sender
            }
        };
        let answer = sender.send_request(request).await;
        self.idle().push(sender);
        answer.map_err(io::Error::other)
    }

    fn kept(&self) -> Option<SendRequest<Incoming>> {
        let mut idle = self.idle();
        let ready = idle.iter().rposition(SendRequest::is_ready)?;
        Some(idle.swap_remove(ready))
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<SendRequest<Incoming>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match serve(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(arguments: Arguments) -> io::Result<()> {
    let listener = TcpListener::bind(arguments.listen).await?;
    let admitted = Arc::new(AtomicUsize::new(0));
    let counter = match &arguments.redis {
        Some(url) => Some(Arc::new(
            Counter::connect(url).await.map_err(io::Error::other)?,
        )),
        None => None,
    };
    let upstream = Arc::new(Upstream {
        address: arguments.upstream,
        idle: Mutex::default(),
    });
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let (upstream, admitted, counter) = (upstream.clone(), admitted.clone(), counter.clone());
        tokio::spawn(async move {
            let service = service_fn(|mut request: Request<Incoming>| {
                let most = arguments.admit;
                let refuses = most.is_some_and(|most| admitted.fetch_add(1, Relaxed) >= most);
                let (upstream, counter) = (upstream.clone(), counter.clone());
                async move {
                    if refuses {
                        return Ok::<_, Infallible>(refusal().map(Either::Left));
                    }
                    if let Some(counter) = counter
                        && counter.count().await.is_err()
                    {
                        return Ok(failure().map(Either::Left));
                    }
                    if let Some(path) = request.uri().path_and_query() {
                        *request.uri_mut() = Uri::from(path.clone());
                    }
                    Ok(match upstream.send(request).await {
                        Ok(answer) => answer.map(Either::Right),
                        Err(_) => failure().map(Either::Left),
                    })
                }
            });
            // The error is ignored, because a client may end its connection in any way.
            let connection = http1::Builder::new().serve_connection(TokioIo::new(socket), service);
            let _ = connection.await;
        });
    }
}

fn failure() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}

/// Returns an answer 429 that is as large as the gateway's answer 429.
fn refusal() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(&[b' '; 260][..]));
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    let kind = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
