//! Fetches key sets for tokens from their issuers.
//!
//! Each set has one task, which fetches the set at the start and at intervals. If a token names a key that is not in the set, the task
//! fetches the set early. So a set never has two fetches at the same time, and no request waits for a fetch. After an error the previous
//! keys stay in force, and the task soon retries.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::USER_AGENT;
use http::uri::Scheme;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use parking_lot::Mutex;
use tidegate_identity::jwt::InvalidKey;
use tidegate_net::text::causes;
use tidegate_net::tls;
use tokio::time::{Instant, sleep_until, timeout};

use tidegate_config::JwksSettings;
use tidegate_telemetry::metrics::JwksMetrics;

/// The longest time for a fetch, from connecting to the last byte.
const DEADLINE: Duration = Duration::from_secs(5);
/// The most bytes of a key set.
const MAX_SET: usize = 256 << 10;
/// The longest time until the retry after a first failure. Each further failure doubles this time, up to the set's `refresh`.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The shortest time between two early fetches, which are made because a token names an unknown key.
const EARLY: Duration = Duration::from_secs(10);
/// The `User-Agent` of a fetch, which some servers require.
const NAME: &str = concat!("tidegate/", env!("CARGO_PKG_VERSION"));

/// A key set, with its HTTP client.
#[derive(Debug)]
pub(crate) struct Jwks {
    settings: JwksSettings,
    name: Arc<str>,
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    // The text of the set from which the current keys were read; empty if no set was fetched yet.
    text: Mutex<Bytes>,
}

/// The reason why a fetch returned no keys.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("there was no whole answer within {} s", DEADLINE.as_secs())]
    Late,
    #[error("{0}")]
    Broken(String),
    #[error("the answer was {0}, not 200 OK")]
    Status(StatusCode),
    #[error(transparent)]
    Keys(#[from] InvalidKey),
}

impl Jwks {
    /// Makes the HTTP client. Takes the keys from the set in `before` with the same URL, so that tokens are accepted before the first
    /// fetch.
    ///
    /// # Errors
    ///
    /// `jwks_ca` is not configured, and this machine trusts no certificate authority.
    pub(crate) fn new(settings: JwksSettings, before: &[Arc<Self>]) -> io::Result<Self> {
        let connector = connector(&settings)?;
        // No connection is kept idle, because the next fetch is much later.
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .build(connector);
        let before = before.iter().find(|set| set.settings.url == settings.url);
        let text = before.map(|set| set.text.lock().clone());
        let text = text.filter(|set| settings.keys.replace(&settings.signatures, set).is_ok());
        Ok(Self {
            name: without_query(&settings.url).into(),
            settings,
            client,
            text: Mutex::new(text.unwrap_or_default()),
        })
    }

    /// Returns the URL without its query, which may contain a secret.
    pub(crate) const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Checks that the set can be fetched now, and that it has keys.
    ///
    /// # Errors
    ///
    /// The set cannot be fetched, or has no keys. The error is the reason as text.
    pub(crate) async fn check(&self) -> Result<(), String> {
        let renewed = self.renew().await;
        renewed.map(drop).map_err(|error| error.to_string())
    }

    /// Fetches the set and applies its keys. Returns the number of keys, or `None` if the set has not changed.
    async fn renew(&self) -> Result<Option<usize>, FetchError> {
        let fetched = timeout(DEADLINE, self.fetch()).await;
        let set = fetched.unwrap_or(Err(FetchError::Late))?;
        // `text` is empty before the first fetch, so an empty answer must not count as unchanged.
        if !set.is_empty() && set == *self.text.lock() {
            return Ok(None);
        }
        let keys = self
            .settings
            .keys
            .replace(&self.settings.signatures, &set)?;
        *self.text.lock() = set;
        Ok(Some(keys))
    }

    /// Fetches the current text of the set.
    async fn fetch(&self) -> Result<Bytes, FetchError> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = self.settings.url.clone();
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, http::HeaderValue::from_static(NAME));
        let answer = self.client.request(request).await;
        let answer = answer.map_err(|error| FetchError::Broken(causes(&error)))?;
        // Redirects are not followed, because only the configured URL may provide keys.
        if answer.status() != StatusCode::OK {
            return Err(FetchError::Status(answer.status()));
        }
        let body = Limited::new(answer.into_body(), MAX_SET).collect().await;
        let body = body.map_err(|error| FetchError::Broken(causes(&*error)))?;
        Ok(body.to_bytes())
    }

    /// Waits until the next fetch: for `wait`, or until a token needs an unknown key. Early fetches are at least `EARLY` apart.
    async fn pause(&self, wait: Duration, last_early: &mut Option<Instant>) {
        let heard_from = last_early.map(|last| last + EARLY);
        let need = async {
            if let Some(heard_from) = heard_from {
                sleep_until(heard_from).await;
            }
            self.settings.missed.notified().await;
        };
        if timeout(wait, need).await.is_ok() {
            *last_early = Some(Instant::now());
        }
    }

    /// Returns the time until the next retry after this number of consecutive failures. The time doubles with each failure. A part of the
    /// time is random, so that gateways do not retry at the same moment.
    fn retry_after(&self, failures: u32) -> Duration {
        let doubled = FIRST_RETRY.saturating_mul(1 << (failures - 1).min(20));
        let half = doubled.min(self.settings.refresh) / 2;
        half + half.mul_f64(random_share())
    }
}

/// Fetches the keys of a set again and again, until the future is dropped.
pub(crate) async fn watch(jwks: Arc<Jwks>, metrics: JwksMetrics) {
    let mut failures = 0;
    let mut last_early = None;
    loop {
        let renewed = jwks.renew().await;
        failures = if renewed.is_ok() { 0 } else { failures + 1 };
        report(&jwks, &renewed, &metrics);
        let wait = match failures {
            0 => jwks.settings.refresh,
            _ => jwks.retry_after(failures),
        };
        jwks.pause(wait, &mut last_early).await;
    }
}

fn report(jwks: &Jwks, renewed: &Result<Option<usize>, FetchError>, metrics: &JwksMetrics) {
    let url = &jwks.name;
    match renewed {
        Ok(changed) => {
            metrics.taken.inc();
            if let Some(keys) = *changed {
                metrics.keys.set(keys.try_into().unwrap_or(i64::MAX));
                tracing::info!(%url, keys, "token keys fetched");
            }
        }
        Err(error) => {
            metrics.failed.inc();
            tracing::warn!(%url, %error, "token keys not fetched; the previous keys stay active");
        }
    }
}

/// Returns the connector for a set's URL.
fn connector(settings: &JwksSettings) -> io::Result<HttpsConnector<HttpConnector>> {
    let https = settings.url.scheme() == Some(&Scheme::HTTPS);
    let tls = tls::https_client(settings.authorities.clone(), https)?;
    Ok(HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .build())
}

fn without_query(url: &Uri) -> String {
    let scheme = url.scheme_str().unwrap_or_default();
    let authority = url.authority().map_or("", http::uri::Authority::as_str);
    format!("{scheme}://{authority}{}", url.path())
}

/// Returns a random number from 0 up to, but not including, 1.
fn random_share() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    f64::from((random >> 32) as u32) / (f64::from(u32::MAX) + 1.0)
}
