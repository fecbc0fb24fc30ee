//! Sends events to a webhook.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::uri::Scheme;
use http::{HeaderValue, Request};
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use jiff::Timestamp;
use serde_json::json;
use tidegate_net::text::causes;
use tidegate_net::tls;
use tidegate_tower::{BudgetEvent, Webhook};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::date;
use super::signature::signature;

/// The longest time for a request, from connecting to the head of the answer.
const DEADLINE: Duration = Duration::from_secs(5);
/// The `User-Agent` of requests.
const NAME: &str = concat!("tidegate/", env!("CARGO_PKG_VERSION"));

type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Sends events to one webhook.
#[derive(Debug)]
pub(super) struct Sender {
    webhook: Arc<Webhook>,
    client: OnceCell<HttpClient>,
}

impl Sender {
    pub(super) fn new(webhook: Arc<Webhook>) -> Self {
        Self {
            webhook,
            client: OnceCell::new(),
        }
    }

    /// Sends an event.
    ///
    /// # Errors
    ///
    /// There is no answer with a status 2xx within five seconds. The error is the reason as text.
    pub(super) async fn send(&self, id: &str, event: &BudgetEvent) -> Result<(), String> {
        let client = self.client.get_or_try_init(|| self.connect()).await?;
        let now = Timestamp::now();
        let body = body(event).to_string();
        // Without windows, the claim of each period has the same ID, but receivers ignore a message whose ID has come before.
        let id = match event.has_windows {
            true => format!("msg_{id}"),
            false => format!("msg_{id}_{}", event.now),
        };
        let signature = signature(&self.webhook.key, &id, now.as_second(), &body);
        let request = Request::post(self.webhook.url.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header(USER_AGENT, HeaderValue::from_static(NAME))
            .header("webhook-id", id)
            .header("webhook-timestamp", now.as_second())
            .header("webhook-signature", signature)
            .body(Full::from(body))
            .map_err(|error| error.to_string())?;
        let answer = timeout(DEADLINE, client.request(request)).await;
        let answer = answer.map_err(|_| "the webhook did not answer within 5 s".to_owned())?;
        let answer = answer.map_err(|error| causes(&error))?;
        match answer.status().is_success() {
            true => Ok(()),
            false => Err(format!("the webhook answered {}", answer.status())),
        }
    }

    /// Makes the client. The certificate authorities of the machine are read from files.
    async fn connect(&self) -> Result<HttpClient, String> {
        let https = self.webhook.url.scheme() == Some(&Scheme::HTTPS);
        let tls = tokio::task::spawn_blocking(move || tls::https_client(None, https)).await;
        let tls = tls.map_err(|error| error.to_string())?;
        let tls = tls.map_err(|error| error.to_string())?;
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .build();
        Ok(Client::builder(TokioExecutor::new()).build(connector))
    }
}

/// Returns the body of an event.
fn body(event: &BudgetEvent) -> serde_json::Value {
    let per: Vec<_> = event.per.iter().map(ToString::to_string).collect();
    json!({
        "type": "budget.threshold",
        "timestamp": date(event.now),
        "data": {
            "limit": event.limit.name(),
            "per": per,
            "client": event.client.as_ref().map(ToString::to_string),
            "plan": event.plan.as_ref().map(ToString::to_string),
            "threshold": event.at,
            "used": event.used,
            "capacity": event.limit.quota().capacity(),
            "resets_at": date(event.resets_at),
        },
    })
}
