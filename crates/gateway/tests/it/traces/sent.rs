//! How batches go to the collector.

use http_body_util::BodyExt as _;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use parking_lot::Mutex;
use prost::Message as _;

use super::*;

/// A collector may be busy, and may refuse spans of a batch that it takes.
#[tokio::test]
async fn a_busy_collector_gets_a_batch_again_and_its_refused_spans_are_counted() {
    let bodies = Arc::<Mutex<Vec<Vec<u8>>>>::default();
    let taken = bodies.clone();
    let collector = Upstream::start(move |request| {
        let taken = taken.clone();
        async move {
            let batch = request.into_body().collect().await.unwrap().to_bytes();
            let partial = ExportTracePartialSuccess {
                rejected_spans: 2,
                error_message: "too old".to_owned(),
            };
            let answer = ExportTraceServiceResponse {
                partial_success: Some(partial),
            };
            let mut response = Response::new(body::full(answer.encode_to_vec()));
            let mut taken = taken.lock();
            if taken.is_empty() {
                *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
            }
            taken.push(batch.to_vec());
            response
        }
    });
    let upstream = Upstream::ok();
    let gateway = TestGateway::start(&format!(
        "
tracing: {{ otlp: \"{}\", sample: 100%, headers: {{ x-key: hunter2 }} }}
routes: [{{ path: /**, upstream: \"{}\" }}]
",
        collector.url(),
        upstream.url()
    ))
    .await;
    let client = Client::new(gateway.address);
    assert_eq!(get(&client, "/", &[]).await, 200);
    let sent = "tidegate_traces_total{outcome=\"sent\"}";
    until("the collector takes the batch", async || {
        sample(gateway.admin, sent).await > 0
    })
    .await;
    assert_eq!(sample(gateway.admin, sent).await, 1);
    let refused = "tidegate_refused_spans_total";
    assert_eq!(sample(gateway.admin, refused).await, 2);
    let failed = "tidegate_traces_total{outcome=\"failed\"}";
    assert_eq!(sample(gateway.admin, failed).await, 0);
    {
        let bodies = bodies.lock();
        assert_eq!(bodies.len(), 2);
        assert_eq!(bodies[0], bodies[1]);
    }
    for request in collector.requests() {
        assert_eq!(request.header("x-key"), Some("hunter2"));
        assert_eq!(
            request.header("content-type"),
            Some("application/x-protobuf")
        );
        assert!(
            request
                .header("user-agent")
                .unwrap()
                .starts_with("tidegate/")
        );
    }
    gateway.stop().await;
}
