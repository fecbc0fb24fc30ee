use super::*;
use crate::{RawUpstream, Upstream};

/// Returns the panic of a client that gets a response with these headers. `None` if it accepts them.
async fn complaint(client: fn(Client) -> Client, headers: &str) -> Option<String> {
    let upstream = RawUpstream::answering(format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{headers}\r\n"
    ));
    let client = client(Client::new(upstream.addr()));
    let panicked = tokio::spawn(async move { client.get("/").await })
        .await
        .err()?;
    Some(
        panicked
            .into_panic()
            .downcast_ref::<String>()
            .unwrap()
            .clone(),
    )
}

#[tokio::test]
async fn a_header_nobody_announced_or_a_second_one_is_a_panic() {
    let unknown =
        |complaint: Option<String>| complaint.unwrap().contains("nobody announced: x-leak");
    let twice = |complaint: Option<String>| complaint.unwrap().contains("retry-after twice");
    assert!(unknown(complaint(|c| c, "X-Leak: 1\r\n").await));
    assert!(twice(
        complaint(|c| c, "Retry-After: 1\r\nRetry-After: 1\r\n").await
    ));
    assert_eq!(
        complaint(|c| c.knows("x-leak"), "X-Leak: 1\r\nRetry-After: 1\r\n").await,
        None
    );
    assert_eq!(
        complaint(
            |c| c.knows("set-cookie"),
            "Set-Cookie: a\r\nSet-Cookie: b\r\n"
        )
        .await,
        None
    );

    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Leak: 1\r\n\r\n";
    let upstream = RawUpstream::answering(chunked);
    let client = Client::new(upstream.addr());
    let checked = tokio::spawn(async move { client.get("/").await }).await;
    assert!(checked.unwrap_err().is_panic());
}

#[tokio::test]
async fn connections_are_kept_or_made_anew() {
    let upstream = Upstream::echo();
    for (client, connections) in [
        (Client::new(upstream.addr()), 1),
        (Client::fresh(upstream.addr()), 3),
    ] {
        for _ in 0..3 {
            assert_eq!(client.post("/x", "body").await.text(), "body");
        }
        assert_eq!(client.connections(), connections);
    }
    assert_eq!(upstream.connections(), 4);
    assert_eq!(
        upstream.requests()[0].header("host"),
        Some(upstream.addr().to_string().as_str())
    );
}

#[tokio::test]
async fn http2_requests_share_one_connection() {
    let (mut held, first) = body::channel();
    let first = std::sync::Mutex::new(Some(first));
    let server = crate::listener::Listener::open(move |stream| {
        let first = std::sync::Mutex::new(first.lock().unwrap().take());
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            assert_eq!(request.uri().host(), Some("example.test"));
            let body = first.lock().unwrap().take().unwrap_or_else(body::empty);
            async move { Ok::<_, std::convert::Infallible>(Response::new(body)) }
        });
        let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), service);
        async move { _ = serving.await }
    });
    let client = Client::h2(server.addr());
    let ask = || {
        Request::get("/")
            .header("host", "example.test")
            .body(body::empty())
            .unwrap()
    };
    let waiting = client.open(ask()).await; // its body is held back
    let answer = client.request(ask()).await;
    assert_eq!((answer.version, client.connections()), (Version::HTTP_2, 1));
    held.send_data("late".into()).await.unwrap();
    drop(held);
    assert_eq!(
        waiting.into_body().collect().await.unwrap().to_bytes(),
        "late"
    );
}
