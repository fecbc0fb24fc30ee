//! The API that load tests protect: workers with a fixed service time, and a bounded queue before them. A file records each request that
//! arrived. The API has no code of the gateway.
//!
//! Overload breaks this API as it breaks real APIs. A request that waits keeps other requests waiting. A request that finds the queue full
//! gets 503. A request still occupies a worker after its client has given up.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command says where it listens, and why it ends"
)]

mod arrivals;
mod capacity;

use std::{
    convert::Infallible,
    net::SocketAddr,
    num::NonZeroUsize,
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use clap::Parser;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    time::sleep_until,
};

use arrivals::Arrivals;
use capacity::Capacity;

/// An API of known capacity, to be protected in load tests.
#[derive(Debug, Parser)]
struct Arguments {
    /// Where it listens; port 0 is any free one.
    #[arg(long, default_value = "127.0.0.1:9000")]
    listen: SocketAddr,
    /// How many requests are worked on at a time.
    #[arg(long, default_value = "8")]
    workers: NonZeroUsize,
    /// How long a worker needs for one, in milliseconds: workers / service time is the capacity.
    #[arg(long, default_value = "10", value_name = "MILLISECONDS")]
    service_time: f64,
    /// How many may wait for a worker; the next one is answered with 503.
    #[arg(long, default_value = "1000")]
    queue: usize,
    /// The file that gets a line for each request that arrives. Default: nowhere
    #[arg(long, value_name = "FILE")]
    arrivals: Option<PathBuf>,
}

/// The parts that all connections share.
#[derive(Debug)]
struct Api {
    capacity: Mutex<Capacity>,
    arrivals: Arrivals,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves until SIGTERM, SIGINT, or the first arrival that cannot be recorded.
async fn run(arguments: Arguments) -> std::io::Result<()> {
    let service_time = Duration::try_from_secs_f64(arguments.service_time / 1_000.0)
        .map_err(|error| std::io::Error::other(format!("--service-time: {error}")))?;
    let api = Arc::new(Api {
        capacity: Mutex::new(Capacity::new(
            arguments.workers,
            service_time,
            arguments.queue,
        )),
        arrivals: Arrivals::open(arguments.arrivals.as_deref())?,
    });
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let listener = TcpListener::bind(arguments.listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    tokio::select! {
        () = serve(listener, Arc::clone(&api)) => {}
        error = api.arrivals.keep_writing() => return Err(error),
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    api.arrivals.write()
}

async fn serve(listener: TcpListener, api: Arc<Api>) {
    loop {
        let socket = match listener.accept().await {
            Ok((socket, _)) => socket,
            Err(error) => {
                // The likely cause is too many open files. After a pause some are closed.
                eprintln!("cannot accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        _ = socket.set_nodelay(true); // fails only if the client has gone
        let api = Arc::clone(&api);
        let service = service_fn(move |request| answer(request, Arc::clone(&api)));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), service));
    }
}

async fn answer(
    request: Request<Incoming>,
    api: Arc<Api>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let arrived = Instant::now();
    // The worker is reserved from here on, whether the client waits or not.
    let done = api
        .capacity
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take(arrived);
    api.arrivals.note(&request, done.is_some());
    // The body is read to its end, so that the connection can be used again.
    _ = request.into_body().collect().await;
    Ok(match done {
        Some(done) => {
            sleep_until(done.into()).await;
            json(StatusCode::OK, r#"{"ok":true}"#)
        }
        None => json(
            StatusCode::SERVICE_UNAVAILABLE,
            r#"{"error":"the API is overloaded"}"#,
        ),
    })
}

fn json(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tidegate_testkit::{Client, body};

    use super::*;

    #[tokio::test]
    async fn it_answers_what_it_can_and_notes_all_that_arrived() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("arrivals.tsv");
        let api = Arc::new(Api {
            // One worker that needs an hour for a request, and one place in the queue.
            capacity: Mutex::new(Capacity::new(
                NonZeroUsize::MIN,
                Duration::from_secs(3600),
                1,
            )),
            arrivals: Arrivals::open(Some(&file)).unwrap(),
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, Arc::clone(&api)));

        let request = |client: &str| {
            let request = Request::post("/rides?x=1")
                .header("x-client-id", client)
                .header("x-sent-at", "7");
            request.body(body::full("a ride")).unwrap()
        };
        let client = Client::new(address);
        let noted = || {
            api.arrivals.write().unwrap();
            std::fs::read_to_string(&file).unwrap()
        };
        // Two clients give up once their requests are noted. The requests keep their places.
        for (before, name) in ["first", "second\tone"].into_iter().enumerate() {
            let is_noted = async {
                while noted().lines().count() <= before {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::select! {
                answer = client.try_request(request(name)) => panic!("{answer:?}"),
                () = is_noted => {}
            }
        }
        assert_eq!(client.request(request("third")).await.status, 503);

        let noted = noted();
        let rows: Vec<Vec<&str>> = noted
            .lines()
            .map(|line| line.split('\t').skip(1).collect())
            .collect();
        assert_eq!(
            rows,
            [
                ["7", "first", "/rides", "1"],
                ["7", "second one", "/rides", "1"],
                ["7", "third", "/rides", "0"],
            ]
        );
    }
}
