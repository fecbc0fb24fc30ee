//! Clients that send requests to the gateway of the demo, so that the demo has traffic to show.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

/// The longest wait for a connection or an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause of a client before it reconnects.
const PAUSE: Duration = Duration::from_secs(1);

/// A client of the demo, and the request that it repeats.
#[derive(Clone, Debug)]
struct Player {
    /// The behaviour of the client, as the demo prints it.
    manner: &'static str,
    /// The address of the client in `X-Forwarded-For`, from the ranges for documentation (RFC 5737).
    address: &'static str,
    method: Method,
    path: &'static str,
    every: Duration,
    /// Whether each request has a new API key. The gateway lists none of these keys.
    guesses: bool,
}

fn players() -> [Player; 5] {
    let polite = |address, method, path, ms| Player {
        manner: "polite",
        address,
        method,
        path,
        every: Duration::from_millis(ms),
        guesses: false,
    };
    [
        polite("192.0.2.10", Method::GET, "/api/fares/estimate", 700),
        polite("192.0.2.11", Method::GET, "/api/drivers/nearby", 900),
        polite("192.0.2.12", Method::POST, "/api/rides/request", 1_300),
        // The gateway limits this path to 60 requests a minute, and the client sends 12 a second.
        Player {
            manner: "greedy",
            ..polite("198.51.100.66", Method::GET, "/api/trips/history", 80)
        },
        // The gateway limits this path to 30 requests a minute. The gateway lists none of the guessed keys, so it counts all these
        // requests for one client.
        Player {
            manner: "guesses keys",
            guesses: true,
            ..polite("198.51.100.99", Method::GET, "/api/admin/zones/stats", 120)
        },
    ]
}

/// Returns a list of the clients and their behaviour, with a line for each client.
pub fn who_plays() -> String {
    players().iter().fold(String::new(), |mut text, player| {
        let _ = writeln!(text, "  ip:{:<15} {}", player.address, player.manner);
        text
    })
}

/// Sends about 25 requests a second to the gateway while the future is polled. Each client waits for its answer before its next request.
pub async fn play(gateway: SocketAddr) -> Infallible {
    let mut all = JoinSet::new();
    for player in players() {
        all.spawn(async move {
            loop {
                // An error means that the gateway stopped, closed the connection or did not answer in time. The client reconnects.
                let _ = player.ask_on(gateway).await;
                sleep(PAUSE).await;
            }
        });
    }
    loop {
        all.join_next().await;
        // Reached only if a client panics, because no client ends.
        sleep(PAUSE).await;
    }
}

impl Player {
    /// Sends requests at the client's pace on one connection, until the connection breaks.
    async fn ask_on(&self, gateway: SocketAddr) -> Option<Infallible> {
        let socket = timeout(PATIENCE, TcpStream::connect(gateway)).await.ok()?;
        let (mut requests, connection) = http1::handshake(TokioIo::new(socket.ok()?)).await.ok()?;
        let mut connection = std::pin::pin!(connection);
        let mut pace = interval(self.every);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let asking = async {
            for number in 0_u64.. {
                pace.tick().await;
                let answered = self.ask(&mut requests, gateway, number);
                timeout(PATIENCE, answered).await.ok()??;
            }
            None::<Infallible>
        };
        tokio::select! {
            ended = asking => ended,
            _ = &mut connection => None,
        }
    }

    async fn ask(
        &self,
        requests: &mut SendRequest<Empty<Bytes>>,
        gateway: SocketAddr,
        number: u64,
    ) -> Option<()> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(self.path)
            .header("host", gateway.to_string())
            .header("user-agent", "tidegate-demo")
            .header("x-forwarded-for", self.address);
        if self.guesses {
            request = request.header("x-api-key", format!("guess-{number:06}"));
        }
        let request = request.body(Empty::new()).ok()?;
        requests.ready().await.ok()?;
        let answer = requests.send_request(request).await.ok()?;
        answer.into_body().collect().await.ok()?;
        Some(())
    }
}
