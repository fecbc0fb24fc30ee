use super::*;
use crate::Client;

#[tokio::test]
async fn the_echo_streams_and_gives_trailers_to_whom_asks() {
    let upstream = Upstream::echo();
    let client = Client::new(upstream.addr()).knows("x-sum");
    for (te, sum) in [(Some("trailers"), Some("7")), (None, None)] {
        let mut request = Request::post("/a?b=c").header("trailer", "x-sum");
        if let Some(te) = te {
            request = request.header("te", te);
        }
        let (mut sender, body) = body::channel();
        let answering = client.open(request.body(body).unwrap());
        sender.send_data("first".into()).await.unwrap();
        let mut answer = answering.await.into_body(); // answered before the body is complete
        let first = http_body_util::BodyExt::frame(&mut answer)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(first.into_data().unwrap(), "first");

        let trailers =
            HeaderMap::from_iter([(http::HeaderName::from_static("x-sum"), "7".parse().unwrap())]);
        sender.send_trailers(trailers).await.unwrap();
        drop(sender);
        let rest = http_body_util::BodyExt::collect(answer).await.unwrap();
        let got = rest
            .trailers()
            .and_then(|trailers| only(trailers, "x-sum").map(str::to_owned));
        assert_eq!(got.as_deref(), sum);
    }
    let seen = upstream.requests();
    assert_eq!(
        (seen.len(), seen[0].target.as_str(), seen[0].header("te")),
        (2, "/a?b=c", Some("trailers"))
    );
    assert_eq!(upstream.connections(), 1);
}

#[tokio::test]
async fn it_goes_down_and_comes_back_at_the_same_address() {
    let upstream = Upstream::ok();
    let client = Client::new(upstream.addr());
    assert_eq!(client.get("/").await.text(), r#"{"ok":true}"#);
    upstream.stop().await;
    client
        .try_request(Request::get("/").body(body::empty()).unwrap())
        .await
        .unwrap_err();
    upstream.restart();
    assert_eq!(client.get("/").await.status, 200);
    assert_eq!(upstream.count(), 2);
}
