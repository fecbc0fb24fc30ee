//! Answers that end before their end: the client, the log, the metrics and the selection of servers see a failure.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_testkit::{Action, Client, RawClient, RawUpstream, Speaks, Upstream, When, body};
use tokio::time::{sleep, timeout};

use crate::group::{LONG, becomes, gateway, metric};
use crate::support::TestGateway;
use crate::support::asking::{sample_if_any, until};

/// Half an answer, in each framing that has an end.
const HALVES: [&str; 4] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nhalf",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n",
];

/// A gateway whose one route leads to `upstream`, and the file of its access log.
struct Logged {
    gateway: TestGateway,
    _folder: TempDir,
    file: PathBuf,
}

impl Logged {
    async fn start(upstream: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("access.log");
        let yaml = format!(
            "log: {{ access: {{ file: \"{}\", format: json }} }}\n{more}\n\
             routes: [{{ name: all, path: /**, upstream: \"{upstream}\" }}]\n",
            file.display()
        );
        Self {
            gateway: TestGateway::start(&yaml).await,
            _folder: folder,
            file,
        }
    }

    /// Waits for the line of the first request; its outcome, status, error and cut.
    async fn line(&self) -> Value {
        let read = || fs::read_to_string(&self.file).unwrap();
        until("there is a line", async || read().contains('\n')).await;
        let line: Value = serde_json::from_str(read().lines().next().unwrap()).unwrap();
        json!([line["outcome"], line["status"], line["error"], line["cut"]])
    }

    /// How many answers were cut, by the metrics.
    async fn cut(&self, by: &str) -> u64 {
        let name = format!("tidegate_cut_answers_total{{route=\"all\",by=\"{by}\"}}");
        let found = sample_if_any(self.gateway.admin, &name).await;
        found.unwrap_or(0)
    }

    async fn requests(&self, outcome: &str) -> u64 {
        let labels = format!("route=\"all\",outcome=\"{outcome}\",status=\"2xx\"");
        let name = format!("tidegate_requests_total{{{labels}}}");
        let found = sample_if_any(self.gateway.admin, &name).await;
        found.unwrap_or(0)
    }
}

/// Asks, and demands that the answer never ends. Its head may not be seen.
async fn gets_half(client: &Client) {
    let request = Request::get("/").body(body::empty()).unwrap();
    let read = timeout(LONG, client.try_request(request)).await;
    assert!(read.unwrap().is_err(), "the client took it for whole");
}

#[tokio::test]
async fn an_answer_that_its_upstream_cuts_is_a_failure() {
    for half in HALVES {
        for (end, by, error) in [
            (Action::Close, "upstream", "upstream_failed"),
            (Action::Reset, "upstream", "upstream_failed"),
            (Action::Hang, "timeout", "upstream_timeout"),
        ] {
            let script = [Action::send(half), end];
            let upstream = RawUpstream::start(When::Request, move |_| script.to_vec());
            for client in [Client::fresh, Client::h2] {
                let more = "timeouts: { upstream: 300ms }";
                let logged = Logged::start(&upstream.url(), more).await;
                gets_half(&client(logged.gateway.address)).await;
                let line = logged.line().await;
                assert_eq!(line, json!(["failed", 200, error, by]), "{half}");
                assert_eq!(
                    (logged.cut(by).await, logged.requests("failed").await),
                    (1, 1)
                );
                assert_eq!(logged.requests("forwarded").await, 0);
            }
        }
    }
}

/// The stream is reset after a part of the answer, or nothing more comes on it.
#[tokio::test]
async fn an_answer_that_is_cut_over_http_2_is_a_failure() {
    for (is_reset, by, error) in [
        (true, "upstream", "upstream_failed"),
        (false, "timeout", "upstream_timeout"),
    ] {
        let upstream = Upstream::speaking(Speaks::Http2, move |_| async move {
            let (mut sender, body) = body::channel();
            tokio::spawn(async move {
                sender.send_data("half".into()).await.unwrap();
                match is_reset {
                    // The part is on its way by then.
                    true => {
                        sleep(Duration::from_millis(100)).await;
                        sender.abort("broken".into());
                    }
                    false => std::future::pending().await,
                }
            });
            Response::new(body)
        });
        for client in [Client::fresh, Client::h2] {
            let logged = Logged::start(&upstream.url(), "timeouts: { upstream: 500ms }").await;
            gets_half(&client(logged.gateway.address)).await;
            assert_eq!(logged.line().await, json!(["failed", 200, error, by]));
            assert_eq!(logged.cut(by).await, 1);
        }
    }
}

/// Without its trailers a call of gRPC has no result.
#[tokio::test]
async fn an_answer_of_grpc_without_trailers_is_cut() {
    let answering = |kind: &'static str, ends: Option<HeaderMap>| {
        Upstream::speaking(Speaks::Http2, move |_| {
            let ends = ends.clone();
            async move {
                let (mut sender, body) = body::channel();
                tokio::spawn(async move {
                    sender.send_data("\0\0\0\0\0".into()).await.unwrap();
                    if let Some(trailers) = ends {
                        sender.send_trailers(trailers).await.unwrap();
                    }
                });
                let answer = Response::builder().header("content-type", kind);
                answer.body(body).unwrap()
            }
        })
    };
    let ok: HeaderMap = [("grpc-status".parse().unwrap(), "0".parse().unwrap())]
        .into_iter()
        .collect();
    let failed = json!(["failed", 200, "upstream_failed", "upstream"]);
    let forwarded = json!(["forwarded", 200, null, null]);
    for (kind, trailers, line) in [
        ("application/grpc+proto", None, &failed),
        ("application/grpc+proto", Some(HeaderMap::new()), &failed),
        ("application/grpc+proto", Some(ok), &forwarded),
        // Their trailers are a part of the body.
        ("application/grpc-web", None, &forwarded),
    ] {
        let upstream = answering(kind, trailers);
        let logged = Logged::start(&upstream.url(), "").await;
        let request = Request::post("/").header("content-type", kind);
        let request = request
            .header("te", "trailers")
            .body(body::empty())
            .unwrap();
        let client = Client::h2(logged.gateway.address).knows("grpc-status");
        let read = timeout(LONG, client.try_request(request)).await;
        assert_eq!(read.expect("it ends").is_err(), line == &failed);
        assert_eq!(&logged.line().await, line, "{kind}");
    }
}

/// A client that leaves, or that breaks off its own body, is no failure of the server.
#[tokio::test]
async fn an_answer_that_its_client_leaves_is_cut_by_the_client() {
    for speaks in [Speaks::Http1, Speaks::Http2] {
        let upstream = Upstream::speaking(speaks, |_| async move {
            let (mut sender, body) = body::channel();
            tokio::spawn(async move {
                while sender.send_data(vec![b'x'; 1024].into()).await.is_ok() {}
            });
            Response::new(body)
        });
        for client in [Client::fresh, Client::h2] {
            let logged = Logged::start(&upstream.url(), "").await;
            let client = client(logged.gateway.address);
            let request = Request::get("/").body(body::empty()).unwrap();
            let mut answer = client.open(request).await;
            answer.body_mut().frame().await.unwrap().unwrap();
            drop((answer, client));
            assert_eq!(
                logged.line().await,
                json!(["forwarded", 200, null, "client"])
            );
            assert_eq!(logged.cut("client").await, 1);
        }
    }
    let upstream = RawUpstream::start(When::Head, |_| vec![Action::send(HALVES[1])]);
    let logged = Logged::start(&upstream.url(), "").await;
    let mut client = RawClient::connect(logged.gateway.address).await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.send(head).await.unwrap();
    client.response_to_head(LONG).await.unwrap();
    client.send("no size\r\n").await.unwrap();
    assert_eq!(
        logged.line().await,
        json!(["forwarded", 200, null, "client"])
    );
}

/// Nothing is wrong with these.
#[tokio::test]
async fn a_whole_answer_is_not_cut() {
    for whole in [
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
        // Its end is the end of the connection: what is missing cannot be seen.
        "HTTP/1.1 200 OK\r\n\r\nbody",
    ] {
        let script = [Action::send(whole), Action::Close];
        let upstream = RawUpstream::start(When::Request, move |_| script.to_vec());
        for client in [Client::fresh, Client::h2] {
            let logged = Logged::start(&upstream.url(), "").await;
            let answer = client(logged.gateway.address).get("/").await;
            assert_eq!(answer.status, 200);
            assert_eq!(
                logged.line().await,
                json!(["forwarded", 200, null, null]),
                "{whole}"
            );
        }
    }
}

/// A server that cuts every other answer is left out, also between answers that are whole.
#[tokio::test]
async fn a_server_that_cuts_answers_is_left_out() {
    for every in [1, 2] {
        let bad = RawUpstream::start(When::Request, move |turn| match turn.connection % every {
            0 => vec![Action::send(HALVES[0]), Action::Close],
            _ => vec![
                Action::send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
                Action::Close,
            ],
        });
        let good = Upstream::ok();
        let urls = [bad.url(), good.url()];
        let gateway = gateway(&urls, "eject: { for: 1h }", "").await;
        let client = Client::fresh(gateway.address);
        until("it is left out", async || {
            let request = Request::post("/").body(body::empty()).unwrap();
            _ = client.try_request(request).await;
            metric(&gateway, "ejections_total", "").await > 0
        })
        .await;
        becomes(&gateway, "servers", "state=\"ejected\"", 1).await;
        assert_eq!(client.get("/").await.status, 200);
    }
}
