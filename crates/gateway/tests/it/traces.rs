//! Traces: what upstreams are told, which requests are recorded, and what a collector gets, read by the messages of the standard.

mod collector;
mod recorded;
mod sent;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Response};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use tidegate_testkit::{Client, Port, RedisServer, Upstream, body};

use crate::kit::{LONG, exact, get, get_each, sample, send, until};
use crate::support::TestGateway;
use collector::{Collector, attributes};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_error(span: &Span) -> bool {
    let status = span.status.as_ref();
    status.is_some_and(|status| status.code() == StatusCode::Error)
}

/// What the last request of an upstream was told: the trace ID, the span ID and the flags.
fn told(upstream: &Upstream) -> Option<[String; 3]> {
    let requests = upstream.requests();
    let value = requests.last().unwrap().header("traceparent")?.to_owned();
    let parts: Vec<&str> = value.split('-').collect();
    assert_eq!((parts.len(), parts[0]), (4, "00"), "{value}");
    Some([parts[1], parts[2], parts[3]].map(str::to_owned))
}

fn traceparent(flags: &str) -> String {
    format!("00-{TRACE}-{SPAN}-{flags}")
}

/// One gateway behind the other, the second one with limits in Redis.
#[tokio::test]
async fn one_trace_through_two_gateways_is_one_tree() {
    let redis = RedisServer::start().await;
    let (collector, upstream) = (Collector::start(), Upstream::ok());
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let inner = TestGateway::start(&format!(
        "
{}
log: {{ access: {{ file: \"{}\", format: json }} }}
tracing: {{ otlp: \"{}\", sample: 0% }}
trusted_proxies: [127.0.0.1]
limits: {{ line: {{ leaky_bucket: {{ queue: 5, drain: 1/2s }} }} }}
routes: [{{ name: api, path: \"/api/{{id}}\", upstream: \"{}\", limits: [line] }}]
",
        exact(&redis),
        log.display(),
        collector.url(),
        upstream.url()
    ))
    .await;
    let outer = TestGateway::start(&format!(
        "
tracing: {{ otlp: \"{}\", sample: 100%, max_per_second: 1000 }}
routes: [{{ path: /**, upstream: \"http://{}\" }}]
",
        collector.url(),
        inner.address
    ))
    .await;
    let client = Client::new(outer.address);
    let headers = [
        ("host", "shop.example:8080"),
        ("x-api-key", "hunter2"),
        ("user-agent", "curl/8"),
    ];
    // The second one waits, however busy this machine is.
    assert_eq!(get(&client, "/api/1?token=hunter2", &headers).await, 200);
    assert_eq!(get(&client, "/api/2?token=hunter2", &headers).await, 200);
    let [trace_id, told_span, flags] = told(&upstream).unwrap();
    assert_eq!(u8::from_str_radix(&flags, 16).unwrap() & 1, 1);
    // A bucket of the durations leads to the trace, once the request's end has been counted.
    let admin = Client::new(inner.admin);
    let accept = [("accept", "application/openmetrics-text")];
    let exemplar = format!(" # {{trace_id=\"{trace_id}\"}} ");
    until("there is an exemplar", async || {
        let page = send(&admin, Method::GET, "/metrics", &accept).await;
        let mut lines = page.text().lines();
        lines.any(|line| line.contains(&exemplar))
    })
    .await;
    outer.stop().await;
    inner.stop().await;
    let spans = collector.wait_for(2 + 2 + 3 + 4).await;
    let of_trace: Vec<&Span> = spans
        .iter()
        .filter(|span| hex(&span.trace_id) == trace_id)
        .collect();
    let named = |name: &str| -> Span {
        let found: Vec<_> = of_trace.iter().filter(|span| span.name == name).collect();
        assert_eq!(found.len(), 1, "{name}: {of_trace:#?}");
        (**found[0]).clone()
    };
    let root = named("GET /**");
    let server = named("GET /api/{id}");
    let decision = named("EVALSHA");
    let wait = named("wait");
    assert!(root.parent_span_id.is_empty());
    let clients: Vec<&&Span> = of_trace.iter().filter(|span| span.name == "GET").collect();
    assert_eq!(clients.len(), 2, "{of_trace:#?}");
    let below = |parent: &Span| {
        let mut found = of_trace
            .iter()
            .filter(|span| span.parent_span_id == parent.span_id);
        let client = found.find(|span| span.name == "GET");
        (**client.unwrap()).clone()
    };
    let (between, last) = (below(&root), below(&server));
    // Each server's span is below that of who asked it.
    assert_eq!(server.parent_span_id, between.span_id);
    assert_eq!(decision.parent_span_id, server.span_id);
    assert_eq!(wait.parent_span_id, server.span_id);
    assert_eq!(hex(&last.span_id), told_span);
    assert_eq!(of_trace.len(), 6, "{of_trace:#?}");
    for (span, kind) in [
        (&root, SpanKind::Server),
        (&server, SpanKind::Server),
        (&between, SpanKind::Client),
        (&last, SpanKind::Client),
        (&decision, SpanKind::Client),
        (&wait, SpanKind::Internal),
    ] {
        assert_eq!(span.kind(), kind, "{span:#?}");
        assert!(
            span.start_time_unix_nano <= span.end_time_unix_nano,
            "{span:#?}"
        );
        assert!(!is_error(span), "{span:#?}");
    }
    // A part is within the whole. The clock of the day may be corrected between two gateways, and is one within each.
    for (part, whole) in [
        (&between, &root),
        (&decision, &server),
        (&wait, &server),
        (&last, &server),
    ] {
        assert!(
            part.start_time_unix_nano >= whole.start_time_unix_nano,
            "{part:#?}\n{whole:#?}"
        );
        assert!(
            part.end_time_unix_nano <= whole.end_time_unix_nano,
            "{part:#?}\n{whole:#?}"
        );
    }
    assert!(decision.end_time_unix_nano <= wait.start_time_unix_nano);
    assert!(wait.end_time_unix_nano <= last.start_time_unix_nano);
    let told = attributes(&server.attributes);
    for (key, value) in [
        ("http.request.method", "GET"),
        ("http.route", "/api/{id}"),
        ("http.response.status_code", "200"),
        ("url.path", "/api/2"),
        ("url.scheme", "http"),
        ("network.protocol.version", "1.1"),
        ("server.address", "shop.example"),
        ("server.port", "8080"),
        ("client.address", "127.0.0.1"),
        ("user_agent.original", "curl/8"),
        ("tidegate.route", "api"),
        ("tidegate.outcome", "forwarded"),
        ("tidegate.limit", "line"),
        ("tidegate.verdict", "allowed"),
        ("tidegate.decided_by", "store"),
    ] {
        assert_eq!(
            told.get(key).map(String::as_str),
            Some(value),
            "{key}: {told:#?}"
        );
    }
    assert!(told.contains_key("tidegate.remaining"), "{told:#?}");
    // The access log tells of the same trace and the same times.
    let text = std::fs::read_to_string(&log).unwrap();
    let line: serde_json::Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    assert_eq!(line["trace_id"], trace_id.as_str());
    let took = |span: &Span| (span.end_time_unix_nano - span.start_time_unix_nano) / 1_000;
    assert_eq!(line["total_us"], took(&server));
    assert_eq!(line["store_us"], took(&decision));
    assert_eq!(line["waited_us"], took(&wait));
    for (resource, _) in collector.spans() {
        assert_eq!(resource["service.name"], "tidegate");
    }
    for body in collector.bodies.lock().iter() {
        let has_secret = body.windows(7).any(|part| part == b"hunter2");
        assert!(!has_secret, "a key or a query was sent");
    }
}

#[tokio::test]
async fn a_client_error_is_no_error_and_each_attempt_is_a_span() {
    let collector = Collector::start();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let upstream = Upstream::start(move |request| {
        let nth = count.fetch_add(1, Ordering::Relaxed);
        let status = match request.uri().path() {
            "/missing" => 404,
            "/again" if nth == 0 => 503,
            "/broken" => 500,
            _ => 200,
        };
        async move {
            let mut response = Response::new(body::empty());
            *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
            response
        }
    });
    let gateway = TestGateway::start(&format!(
        "
tracing: {{ otlp: \"{}\", sample: 100% }}
limits: {{ one: {{ fixed_window: {{ limit: 3, window: 31d }} }} }}
routes: [{{ path: /**, upstream: \"{}\", retries: {{ attempts: 1 }}, limits: [one] }}]
",
        collector.url(),
        upstream.url()
    ))
    .await;
    let client = Client::new(gateway.address);
    let mut statuses = Vec::new();
    for path in ["/again", "/missing", "/broken", "/refused"] {
        statuses.push(get(&client, path, &[]).await);
    }
    assert_eq!(statuses, [200, 404, 500, 429]);
    assert_eq!(
        send(&client, Method::from_bytes(b"PR0PFIND").unwrap(), "/", &[])
            .await
            .status,
        429
    );
    gateway.stop().await;
    let spans = collector.wait_for(5 + 4).await;
    assert_eq!(spans.len(), 5 + 4, "{spans:#?}");
    let server = |path: &str| {
        let mut found = spans.iter().filter(|span| span.kind() == SpanKind::Server);
        found
            .find(|span| attributes(&span.attributes)["url.path"] == path)
            .unwrap()
    };
    let below = |parent: &Span| -> Vec<&Span> {
        let found = spans
            .iter()
            .filter(|span| span.parent_span_id == parent.span_id);
        found.collect()
    };
    let error = |span: &Span| {
        let kind = attributes(&span.attributes).get("error.type").cloned();
        assert_eq!(is_error(span), kind.is_some(), "{span:#?}");
        kind
    };
    assert_eq!(error(server("/missing")), None);
    assert_eq!(error(server("/refused")), None);
    assert_eq!(error(server("/again")), None);
    assert_eq!(error(server("/broken")).as_deref(), Some("500"));
    // Of a client's span it is one.
    assert_eq!(error(below(server("/missing"))[0]).as_deref(), Some("404"));
    assert!(below(server("/refused")).is_empty());
    let refused = attributes(&server("/refused").attributes);
    assert_eq!(
        (&*refused["tidegate.verdict"], &*refused["tidegate.limit"]),
        ("refused", "one")
    );
    let again = below(server("/again"));
    let sent: Vec<_> = again
        .iter()
        .map(|span| attributes(&span.attributes))
        .collect();
    assert_eq!(sent.len(), 2, "{again:#?}");
    assert_eq!(
        (
            &*sent[0]["http.response.status_code"],
            &*sent[1]["http.response.status_code"]
        ),
        ("503", "200")
    );
    assert_eq!(sent[1]["http.request.resend_count"], "1");
    assert_ne!(again[0].span_id, again[1].span_id);
    let odd = attributes(&server("/").attributes);
    assert_eq!(server("/").name, "HTTP /**");
    assert_eq!(
        (
            &*odd["http.request.method"],
            &*odd["http.request.method_original"]
        ),
        ("_OTHER", "PR0PFIND")
    );
}

#[tokio::test]
async fn a_collector_that_is_gone_costs_no_request() {
    let (upstream, port) = (Upstream::ok(), Port::reserve());
    let gateway = TestGateway::start(&format!(
        "
tracing: {{ otlp: \"http://{}\", sample: 100%, max_per_second: 1000 }}
routes: [{{ path: /**, upstream: \"{}\" }}]
",
        port.addr(),
        upstream.url()
    ))
    .await;
    let client = Client::new(gateway.address);
    get_each(&client, 20, "/", &[], 200).await;
    let failed = "tidegate_traces_total{outcome=\"failed\"}";
    until("the traces are given up", async || {
        sample(gateway.admin, failed).await > 0
    })
    .await;
    // Those that still wait are tried once more, and hold up no stop.
    tokio::time::timeout(LONG, gateway.stop()).await.unwrap();
}
