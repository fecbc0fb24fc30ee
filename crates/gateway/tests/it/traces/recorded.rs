//! Who says which requests are recorded.

use super::*;

#[tokio::test]
async fn headers_are_left_alone_where_tracing_is_off() {
    let upstream = Upstream::ok();
    let gateway = TestGateway::start(&format!(
        "routes: [{{ path: /**, upstream: \"{}\" }}]\n",
        upstream.url()
    ))
    .await;
    let client = Client::new(gateway.address);
    get(&client, "/", &[]).await;
    assert_eq!(told(&upstream), None);
    let sent = traceparent("01");
    get(
        &client,
        "/",
        &[("traceparent", &sent), ("tracestate", "a=b")],
    )
    .await;
    let arrived = upstream.requests().pop().unwrap();
    assert_eq!(arrived.header("traceparent"), Some(&*sent));
    assert_eq!(arrived.header("tracestate"), Some("a=b"));
    gateway.stop().await;
}

/// Recording costs more than strangers may ask for.
#[tokio::test]
async fn only_a_trusted_peer_says_what_is_recorded() {
    let (collector, upstream) = (Collector::start(), Upstream::ok());
    let gateway = |sample: &str| {
        let yaml = format!(
            "
tracing: {{ otlp: \"{}\", sample: {sample} }}
trusted_proxies: [127.0.0.1]
routes: [{{ path: /**, upstream: \"{}\" }}]
",
            collector.url(),
            upstream.url()
        );
        async move { TestGateway::start(&yaml).await }
    };
    let (none, all) = (gateway("0%").await, gateway("100%").await);
    let mut recorded = 0;
    for (gateway, is_trusted, sent, is_recorded) in [
        (&none, true, Some("01"), true),
        (&none, true, Some("00"), false),
        (&none, true, None, false),
        (&none, false, Some("01"), false),
        (&all, true, Some("00"), false),
        (&all, false, Some("00"), true),
        (&all, true, None, true),
    ] {
        let client = Client::fresh(gateway.address);
        let client = if is_trusted {
            client
        } else {
            client.from_ip([127, 0, 0, 2])
        };
        let sent = sent.map(traceparent);
        let mut headers = vec![("tracestate", "a=b")];
        headers.extend(sent.as_deref().map(|sent| ("traceparent", sent)));
        get(&client, "/", &headers).await;
        let [trace_id, span, flags] = told(&upstream).unwrap();
        let flags = u8::from_str_radix(&flags, 16).unwrap();
        assert_eq!(flags & 1 == 1, is_recorded, "{is_trusted} {sent:?}");
        assert_eq!(
            trace_id == TRACE,
            sent.is_some(),
            "the trace goes on, whoever began it"
        );
        assert_ne!(span, SPAN);
        let arrived = upstream.requests().pop().unwrap();
        assert_eq!(arrived.header("tracestate").is_some(), sent.is_some());
        recorded += usize::from(is_recorded);
    }
    none.stop().await;
    all.stop().await;
    let spans = collector.spans();
    let servers = spans
        .iter()
        .filter(|(_, span)| span.kind() == SpanKind::Server);
    assert_eq!(servers.count(), recorded);
}
