//! A gateway that runs out of memory sheds what costs least, goes on with what it has begun, and recovers by itself.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use tidegate_testkit::{Answer, Client, End, RawClient, Upstream, body};
use tokio::sync::watch;

use crate::bench::{LONG, sample};
use crate::frames::{END_HEADERS, END_STREAM, Frames, HEADERS, frame, headers};
use crate::support::GatewayProcess;
use crate::support::asking::answer_to;

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
/// Far above what a gateway needs that does nothing and what each of its threads keeps. Far below what a few connections can make
/// it need.
const MAX: &str = "max_memory: 256MB";

/// How long until a gateway sees what it takes, and until what it only took for a moment is given back.
const LOOK: Duration = Duration::from_millis(250);
const GIVEN_BACK: Duration = Duration::from_millis(1_500);

/// A gateway whose upstream answers `/large` with much, and `/held` when it is told to.
struct Bench {
    gateway: GatewayProcess,
    upstream: Upstream,
    release: watch::Sender<bool>,
}

impl Bench {
    async fn new() -> Self {
        let (release, released) = watch::channel(false);
        let upstream = Upstream::start(move |request| {
            let path = request.uri().path().to_owned();
            let mut released = released.clone();
            async move {
                if path == "/held" {
                    released.wait_for(|released| *released).await.unwrap();
                }
                let size = if path == "/large" { 512 << 10 } else { 2 };
                Response::new(body::full(vec![b'x'; size]))
            }
        });
        let url = upstream.url();
        let gateway = GatewayProcess::start(&format!(
            "{MAX}\n\
             limits: {{ all: {{ fixed_window: {{ limit: 1000000, window: 31d }}, per: [ip] }} }}\n\
             routes: [{{ path: /**, upstream: \"{url}\", limits: [all] }}]\n"
        ))
        .await;
        Self {
            gateway,
            upstream,
            release,
        }
    }

    async fn admin(&self, path: &str) -> Answer {
        Client::fresh(self.gateway.admin).get(path).await
    }

    /// Whether requests are shed after this time.
    async fn is_full(&self, after: Duration) -> bool {
        tokio::time::sleep(after).await;
        sample(self.gateway.admin, "tidegate_memory_pressure").await == 2
    }

    /// Asks for much and takes nothing of it, until requests are shed.
    async fn attack(&self) -> Vec<Frames> {
        let large = |n: u32| {
            let head = headers("GET", "/large", &[]);
            frame(HEADERS, END_STREAM | END_HEADERS, 2 * n + 1, &head)
        };
        let mut attackers = Vec::new();
        for _ in 0..64 {
            // SETTINGS_INITIAL_WINDOW_SIZE is 0.
            let mut attacker = Frames::connect(self.gateway.address, &[0, 4, 0, 0, 0, 0]).await;
            // Near `max_memory` the gateway closes connections without a request, and a slow gateway stays near it for long.
            attacker.send(&[large(0)]).await.unwrap();
            attackers.push(attacker);
        }
        for attacker in &mut attackers {
            let requests: Vec<_> = (1..100).map(large).collect();
            attacker.send(&requests).await.unwrap();
            if self.is_full(LOOK).await && self.is_full(GIVEN_BACK).await {
                return attackers;
            }
        }
        panic!("it takes {} KiB", self.gateway.process.rss_kb());
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_of_memory_it_sheds_and_recovers_by_itself() {
    let bench = Bench::new().await;
    let address = bench.gateway.address;
    assert_eq!(Client::new(address).get("/").await.status, 200);
    let mut idle = RawClient::connect(address).await;
    assert_eq!(answer_to(&mut idle, GET).await.status(), 200);
    // It acknowledges nothing.
    let silent = Frames::connect(address, &[]).await;
    let under_way = tokio::spawn(async move { Client::new(address).get("/held").await });
    // Two requests on one connection: the second comes when all are shed.
    let (mut slow, both) = body::channel();
    let client = Arc::new(Client::h2(address));
    let uploading = client.clone();
    let upload = Request::post("/held").body(both).unwrap();
    let uploading = tokio::spawn(async move { uploading.open(upload).await.status() });
    slow.send_data("part".into()).await.unwrap();
    bench.upstream.wait_for(4, LONG).await;

    let attackers = bench.attack().await;
    // What is asked anew is refused before it costs anything, on an old connection and on a new one.
    let seen = bench.upstream.count();
    let shed = client.get("/").await;
    assert_eq!(
        (shed.status.as_u16(), shed.header("retry-after")),
        (503, Some("1"))
    );
    assert!(shed.text().contains("\"overloaded\""), "{}", shed.text());
    assert!(shed.header("x-ratelimit-limit").is_none());
    let (said, _) = RawClient::exchange(address, GET, LONG).await;
    let said = String::from_utf8(said).unwrap();
    assert!(
        said.starts_with("HTTP/1.1 503 ") && said.contains("retry-after: 1\r\n"),
        "{said}"
    );
    assert_eq!(bench.upstream.count(), seen);
    assert_eq!(idle.read_to_close(LONG).await, (vec![], End::Closed));
    assert_eq!(silent.heard(LONG).await.goaway, Some(0));
    // It lives, and is no place to send more to.
    assert_eq!(bench.admin("/healthz").await.status, 200);
    let ready = bench.admin("/readyz").await;
    assert_eq!(ready.status, 503);
    assert!(ready.text().contains("max_memory"), "{}", ready.text());
    // What was begun goes on.
    bench.release.send(true).unwrap();
    assert_eq!(under_way.await.unwrap().status, 200);
    drop(slow);
    assert_eq!(uploading.await.unwrap(), 200);

    drop(attackers);
    // Nobody asks for anything meanwhile: it recovers by itself.
    let process = &bench.gateway.process;
    process.wait_for_line("are accepted again", LONG).await;
    assert_eq!(
        sample(bench.gateway.admin, "tidegate_memory_pressure").await,
        0
    );
    let client = Client::new(address);
    let answer = client.get("/").await;
    assert_eq!(answer.status, 200);
    // Only what was let through was charged.
    let left = answer.header("x-ratelimit-remaining").unwrap();
    assert_eq!(
        1_000_000 - left.parse::<usize>().unwrap(),
        bench.upstream.count()
    );
    assert_eq!(bench.admin("/readyz").await.status, 200);
    for counted in [
        "tidegate_connections_refused_total{reason=\"max_memory\"}",
        "tidegate_idle_connections_closed_total",
        "tidegate_requests_total{route=\"none\",outcome=\"shed\",status=\"5xx\"}",
    ] {
        assert!(sample(bench.gateway.admin, counted).await >= 1, "{counted}");
    }
    let output = bench.gateway.process.output().join("\n");
    assert_eq!(
        output.matches("requests are refused with 503").count(),
        1,
        "{output}"
    );
    assert_eq!(output.matches("are accepted again").count(), 1, "{output}");
}
