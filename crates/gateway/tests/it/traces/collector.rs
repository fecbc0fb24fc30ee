//! A collector, and what it got, read by the messages of the standard.

use std::collections::HashMap;
use std::sync::Arc;

use http::Response;
use http_body_util::BodyExt as _;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use prost::Message as _;
use tidegate_testkit::{Upstream, body};

use crate::kit::until;

/// A collector that takes OTLP over HTTP.
pub(super) struct Collector {
    server: Upstream,
    pub(super) bodies: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Collector {
    pub(super) fn start() -> Self {
        let bodies = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let taken = bodies.clone();
        let server = Upstream::start(move |request| {
            let taken = taken.clone();
            async move {
                let body = request.into_body().collect().await.unwrap();
                taken.lock().push(body.to_bytes().to_vec());
                Response::new(body::empty())
            }
        });
        Self { server, bodies }
    }

    pub(super) fn url(&self) -> String {
        self.server.url()
    }

    /// All spans so far, and the attributes of what sent them.
    pub(super) fn spans(&self) -> Vec<(HashMap<String, String>, Span)> {
        let bodies = self.bodies.lock();
        let requests = bodies
            .iter()
            .map(|body| ExportTraceServiceRequest::decode(&body[..]).unwrap());
        let of_resources = requests.flat_map(|request| request.resource_spans);
        of_resources
            .flat_map(|spans| {
                let resource = attributes(&spans.resource.unwrap().attributes);
                let scopes = spans.scope_spans.into_iter();
                let spans = scopes.flat_map(|scope| scope.spans);
                spans.map(move |span| (resource.clone(), span))
            })
            .collect()
    }

    /// All spans, once there are so many.
    pub(super) async fn wait_for(&self, count: usize) -> Vec<Span> {
        until("the collector has the spans", async || {
            self.spans().len() >= count
        })
        .await;
        self.spans().into_iter().map(|(_, span)| span).collect()
    }
}

/// Attributes by name, their values as text.
pub(super) fn attributes(attributes: &[KeyValue]) -> HashMap<String, String> {
    let attributes = attributes.iter().map(|pair| {
        let value = match pair.value.as_ref().unwrap().value.as_ref().unwrap() {
            Value::StringValue(text) => text.clone(),
            Value::IntValue(number) => number.to_string(),
            other => panic!("{other:?}"),
        };
        (pair.key.clone(), value)
    });
    attributes.collect()
}
