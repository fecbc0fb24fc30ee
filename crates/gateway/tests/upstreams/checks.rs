//! Servers are asked whether they are well.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tidegate_testkit::body::BoxBody;
use tidegate_testkit::{Client, Speaks, Upstream, body};

use crate::group::{becomes, gateway, metric};
use crate::support::asking::get_each;

const IN: &str = "state=\"healthy\"";
const OUT: &str = "state=\"unhealthy\"";
const HEALTH: &str = "health: { path: /healthz?full, every: 10ms, timeout: 5s, healthy_after: 2, unhealthy_after: 2 }";

/// A server whose checks are answered with the status that is set, and all else with 200.
fn checked(speaks: Speaks) -> (Upstream, Arc<AtomicU16>) {
    let status = Arc::new(AtomicU16::new(200));
    let answers = status.clone();
    let server = Upstream::speaking(speaks, move |request: Request<Incoming>| {
        let is_check = request.uri().path_and_query().unwrap() == "/healthz?full";
        let status = answers.load(Ordering::Relaxed);
        async move {
            let mut answer = http::Response::new(body::full("answer"));
            if is_check {
                *answer.status_mut() = StatusCode::from_u16(status).unwrap();
            }
            answer
        }
    });
    (server, status)
}

fn served(server: &Upstream) -> usize {
    let arrived = server.requests();
    arrived
        .iter()
        .filter(|request| request.target == "/")
        .count()
}

#[tokio::test]
async fn a_server_that_fails_its_checks_gets_nothing_until_it_passes() {
    for speaks in [Speaks::Http1, Speaks::Http2] {
        let (uneven, status) = checked(speaks.clone());
        let (good, _) = checked(speaks);
        let gateway = gateway(&[uneven.url(), good.url()], HEALTH, "").await;
        let client = Client::new(gateway.address);
        status.store(503, Ordering::Relaxed);
        becomes(&gateway, "servers", OUT, 1).await;
        let before = served(&uneven);
        get_each(&client, 10, "/", &[], 200).await;
        assert_eq!(served(&uneven), before);
        // A redirection is a good answer.
        status.store(302, Ordering::Relaxed);
        becomes(&gateway, "servers", IN, 2).await;
        get_each(&client, 10, "/", &[], 200).await;
        assert_eq!(served(&uneven), before + 5);
        assert!(metric(&gateway, "checks_total", "outcome=\"failed\"").await >= 1);
        assert!(metric(&gateway, "checks_total", "outcome=\"passed\"").await >= 4);
    }
}

#[tokio::test]
async fn when_all_are_down_the_answer_is_503_with_retry_after() {
    let (first, second) = (checked(Speaks::Http1), checked(Speaks::Http1));
    first.1.store(500, Ordering::Relaxed);
    let health = HEALTH.replace("every: 10ms", "every: 1100ms");
    let gateway = gateway(&[first.0.url(), second.0.url()], &health, "").await;
    becomes(&gateway, "servers", OUT, 1).await;
    second.0.stop().await;
    let client = Client::new(gateway.address);
    becomes(&gateway, "servers", OUT, 2).await;
    let answer = client.get("/").await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.header("retry-after"), Some("2"));
    assert!(answer.text().contains("upstream_down"), "{}", answer.text());
    assert_eq!(served(&first.0), 0);
    second.0.restart();
    becomes(&gateway, "servers", IN, 1).await;
    assert_eq!(client.get("/").await.status, 200);
}

/// A check that finds a server hung takes it out as one that finds it gone.
#[tokio::test]
async fn no_answer_is_a_bad_one() {
    let hung = crate::group::hanging();
    let (good, _) = checked(Speaks::Http1);
    let health = HEALTH.replace("timeout: 5s", "timeout: 200ms");
    let gateway = gateway(&[hung.url(), good.url()], &health, "").await;
    becomes(&gateway, "servers", OUT, 1).await;
    let client = Client::new(gateway.address);
    get_each(&client, 6, "/", &[], 200).await;
}

/// A service often answers health checks on a port of its own.
#[tokio::test]
async fn a_check_has_a_port_a_host_and_a_method_of_its_own() {
    for speaks in [Speaks::Http1, Speaks::Http2] {
        let server = Upstream::ok_speaking(speaks.clone());
        let checked = Upstream::ok_speaking(speaks);
        let port = checked.url().rsplit_once(':').unwrap().1.to_owned();
        for (host, expected) in [
            ("host: health.internal, method: HEAD,", "health.internal"),
            ("", &*format!("127.0.0.1:{port}")),
        ] {
            let health = format!(
                "health: {{ path: /ready, port: {port}, {host} every: 10ms, timeout: 5s, unhealthy_after: 1 }}"
            );
            let before = checked.count();
            let gateway = gateway(&[server.url()], &health, "").await;
            // The last check of the gateway before may still come.
            let mut received = before;
            let check = loop {
                received += 1;
                checked.wait_for(received, crate::group::LONG).await;
                let check = checked.requests()[received - 1].clone();
                if check.headers["host"] == expected {
                    break check;
                }
                assert_eq!(received, before + 1, "{check:?}");
            };
            let method = match host {
                "" => Method::GET,
                _ => Method::HEAD,
            };
            assert_eq!((&*check.target, check.method), ("/ready", method));
            let client = Client::new(gateway.address);
            assert_eq!(client.get("/").await.status, 200);
            checked.stop().await;
            becomes(&gateway, "servers", OUT, 1).await;
            assert_eq!(client.get("/").await.status, 503);
            checked.restart();
            becomes(&gateway, "servers", IN, 1).await;
            gateway.stop().await;
        }
        assert_eq!(server.count(), served(&server), "none of them is a check");
    }
}

/// A service of gRPC whose health has the status that is set; above 100 that is an error with the status beyond 100.
fn healthy(service: &'static str) -> (Upstream, Arc<AtomicU8>) {
    let status = Arc::new(AtomicU8::new(1));
    let answers = status.clone();
    let server = Upstream::speaking(Speaks::Http2, move |request: Request<Incoming>| {
        let status = answers.load(Ordering::Relaxed);
        async move {
            if request.uri().path() != "/grpc.health.v1.Health/Check" {
                return Response::new(body::full("answer"));
            }
            assert_eq!(request.method(), Method::POST);
            assert_eq!(request.headers()["content-type"], "application/grpc");
            assert_eq!(request.headers()["te"], "trailers");
            let asked = request.into_body().collect().await.unwrap().to_bytes();
            let mut expected = vec![0, 0, 0, 0, 0];
            if !service.is_empty() {
                expected[4] = service.len() as u8 + 2;
                expected.extend([0x0a, service.len() as u8]);
                expected.extend(service.as_bytes());
            }
            assert_eq!(asked, expected);
            health_answer(status)
        }
    });
    (server, status)
}

fn health_answer(status: u8) -> Response<BoxBody> {
    let answer = Response::builder().header("content-type", "application/grpc");
    if let Some(code) = status.checked_sub(100) {
        return answer
            .header("grpc-status", code.to_string())
            .body(body::empty())
            .unwrap();
    }
    let (mut sender, body) = body::channel();
    tokio::spawn(async move {
        let message = Bytes::copy_from_slice(&[0, 0, 0, 0, 2, 8, status]);
        let code = ("grpc-status".parse().unwrap(), "0".parse().unwrap());
        _ = sender.send_data(message).await;
        _ = sender.send_trailers(HeaderMap::from_iter([code])).await;
    });
    answer.body(body).unwrap()
}

#[tokio::test]
async fn a_check_by_grpc_wants_serving() {
    for service in ["", "shop.Cart"] {
        let (server, status) = healthy(service);
        let grpc = match service {
            "" => "{}".to_owned(),
            _ => format!("{{ service: {service} }}"),
        };
        let health = format!(
            "health: {{ grpc: {grpc}, every: 10ms, timeout: 5s, healthy_after: 1, unhealthy_after: 1 }}"
        );
        let gateway = gateway(&[server.url()], &health, "").await;
        let client = Client::new(gateway.address);
        becomes(&gateway, "servers", IN, 1).await;
        // NOT_SERVING, SERVICE_UNKNOWN, and the errors NOT_FOUND and UNIMPLEMENTED.
        for bad in [2, 3, 105, 112] {
            status.store(bad, Ordering::Relaxed);
            becomes(&gateway, "servers", OUT, 1).await;
            assert_eq!(client.get("/").await.status, 503);
            status.store(1, Ordering::Relaxed);
            becomes(&gateway, "servers", IN, 1).await;
            assert_eq!(client.get("/").await.status, 200);
        }
        assert_eq!(server.connections(), 1);
    }
}
