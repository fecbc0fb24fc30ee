//! The HTTP client with which the OTLP exporter calls the collector.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt as _, Collected, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prometheus_client::metrics::counter::Counter;
use prost::Message as _;
use tidegate_net::text::causes;
use tidegate_net::tls;
use tokio::time::timeout;

use super::settings::TraceSettings;

/// The most bytes of an answer of the collector.
const MAX_ANSWER: usize = 64 * 1024;
/// The most characters of a collector's message in the log.
const MAX_MESSAGE: usize = 200;
/// The gateway's name in requests to the collector.
const NAME: &str = concat!("tidegate/", env!("CARGO_PKG_VERSION"));

/// An HTTP client that logs whether the collector accepts traces, and counts the spans that the collector refuses.
#[derive(Debug)]
pub(super) struct Collector {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// All headers of a request to the collector. They replace the headers of the OTLP exporter, which may come from environment variables.
    headers: HeaderMap,
    timeout: Duration,
    refused_spans: Counter,
    /// Whether the collector accepted the last batch.
    is_well: AtomicBool,
}

impl Collector {
    pub(super) fn new(
        settings: &TraceSettings,
        url: &Uri,
        refused_spans: Counter,
    ) -> io::Result<Self> {
        let tls = tls::https_client(None, url.scheme() == Some(&Scheme::HTTPS))?;
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .build();
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static(NAME));
        // A configured `User-Agent` replaces the gateway's name.
        for (name, value) in &settings.headers {
            headers.insert(name, value.clone());
        }
        let protobuf = HeaderValue::from_static("application/x-protobuf");
        headers.insert(CONTENT_TYPE, protobuf);
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            headers,
            timeout: settings.timeout,
            refused_spans,
            is_well: AtomicBool::new(true),
        })
    }

    async fn post(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.client.request(request.map(Full::new)).await?;
        let (head, body) = answer.into_parts();
        // Only the status matters. With a success status, the batch is accepted, even if the body of the answer is lost.
        let body = match head.status.is_success() {
            true => Limited::new(body, MAX_ANSWER).collect().await.ok(),
            false => None,
        };
        let body = body.map(Collected::to_bytes).unwrap_or_default();
        Ok(Response::from_parts(head, body))
    }

    /// Logs when the collector first fails to accept a batch, and when it accepts batches again.
    fn note(&self, url: &Uri, taken: Result<(), String>) {
        let collector = url.authority().map_or("", http::uri::Authority::as_str);
        let was_well = self.is_well.swap(taken.is_ok(), Ordering::Relaxed);
        match taken {
            Err(reason) if was_well => {
                tracing::warn!(
                    collector,
                    reason,
                    "the collector does not take traces; they wait, and are then dropped"
                );
            }
            Ok(()) if !was_well => {
                tracing::info!(collector, "the collector takes traces again");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        request.headers_mut().clone_from(&self.headers);
        let url = request.uri().clone();
        let answer = timeout(self.timeout, self.post(request)).await;
        let answer = answer.unwrap_or_else(|_| Err("no answer in time".into()));
        let taken = match &answer {
            Ok(answer) if answer.status().is_success() => {
                self.refused_spans.inc_by(refused_spans(answer.body()));
                Ok(())
            }
            Ok(answer) => Err(format!("the answer was {}", answer.status())),
            Err(error) => Err(causes(&**error)),
        };
        self.note(&url, taken);
        answer
    }
}

/// Returns the number of refused spans in an accepted batch (`partial_success`). Logs the collector's reason.
fn refused_spans(answer: &[u8]) -> u64 {
    let answer = ExportTraceServiceResponse::decode(answer).unwrap_or_default();
    let partial = answer.partial_success.unwrap_or_default();
    let spans = u64::try_from(partial.rejected_spans).unwrap_or_default();
    let message = printable(&partial.error_message);
    if spans > 0 {
        tracing::warn!(spans, message, "the collector refused some spans");
    } else if !message.is_empty() {
        tracing::warn!(message, "the collector took a batch with a warning");
    }
    spans
}

/// Returns the first [`MAX_MESSAGE`] characters of a text from the collector. Escapes control characters.
fn printable(text: &str) -> String {
    let mut printable = String::new();
    for (nth, char) in text.chars().enumerate() {
        if nth == MAX_MESSAGE {
            printable.push('…');
            break;
        }
        if char.is_control() {
            printable.extend(char.escape_default());
        } else {
            printable.push(char);
        }
    }
    printable
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;

    use super::*;

    #[test]
    fn refused_spans_are_counted_and_their_reason_is_cut() {
        let answer = |rejected_spans: i64, reason: &str| {
            let partial_success = ExportTracePartialSuccess {
                rejected_spans,
                error_message: reason.to_owned(),
            };
            let answer = ExportTraceServiceResponse {
                partial_success: Some(partial_success),
            };
            answer.encode_to_vec()
        };
        assert_eq!(refused_spans(&answer(7, "too old")), 7);
        assert_eq!(refused_spans(&answer(-1, "")), 0);
        assert_eq!(refused_spans(&answer(0, "soon")), 0);
        assert_eq!(refused_spans(b""), 0);
        assert_eq!(refused_spans(b"\x0a\xff"), 0);
        let long = format!("\x1b[31m\n{}", "ü".repeat(64 * 1024));
        let shown = printable(&long);
        assert_eq!(shown, format!("\\u{{1b}}[31m\\n{}…", "ü".repeat(194)));
        assert_eq!(printable("größe"), "größe");
    }
}
