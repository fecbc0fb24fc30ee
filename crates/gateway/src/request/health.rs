//! `health`: the answer of the listeners to health checks of load balancers and containers.
//!
//! Health checks often use HTTP/1.0 and name no host. The gateway does not charge, forward or log them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use tidegate_identity::Clients;
use tidegate_server::{Overload, Pressure};
use tidegate_store::{Limit, Store};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::body::Body;

/// The time for which one result is reused, so that a flood of health checks calls the store only once a second.
const KEPT: Duration = Duration::from_secs(1);

/// Whether a request with the path `request_path` and this method is a health check. `path` is the configured path, if there is one.
pub(crate) fn is_check(path: Option<&str>, method: &Method, request_path: &str) -> bool {
    let methods = [Method::GET, Method::HEAD, Method::OPTIONS];
    path == Some(request_path) && methods.contains(method)
}

/// Checks whether the gateway can serve requests. The error is the reason why the gateway cannot: memory is short, keys of tokens are
/// missing, or the store cannot decide.
pub(crate) async fn readiness(
    overload: &Overload,
    clients: &Clients,
    store: &Store,
    limits: impl Iterator<Item = &Limit>,
) -> Result<(), String> {
    if overload.pressure() != Pressure::None {
        return Err("near max_memory: new connections are refused".to_owned());
    }
    if clients.lack_keys() {
        return Err("a key set of jwt was not fetched yet".to_owned());
    }
    let ready = store.ready(limits).await;
    ready.map_err(|error| error.to_string())
}

/// Returns an answer in plain text.
pub(crate) fn plain_text(status: StatusCode, text: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

/// Answers health checks at one path.
#[derive(Debug)]
pub(crate) struct Health {
    path: Box<str>,
    store: Store,
    limits: Vec<Arc<Limit>>,
    cache: Mutex<Option<(Instant, bool)>>,
}

impl Health {
    pub(crate) fn new(path: Box<str>, store: Store, limits: Vec<Arc<Limit>>) -> Self {
        Self {
            path,
            store,
            limits,
            cache: Mutex::new(None),
        }
    }

    /// Whether a request is a health check.
    pub(crate) fn takes<B>(&self, request: &Request<B>) -> bool {
        is_check(Some(&self.path), request.method(), request.uri().path())
    }

    /// Answers a health check with 200. Answers 503 if the gateway drains, or cannot serve requests.
    pub(crate) async fn answer(
        &self,
        drains: bool,
        overload: &Overload,
        clients: &Clients,
    ) -> Response<Body> {
        let is_ready = !drains && self.is_ready(overload, clients).await;
        let (status, text) = match is_ready {
            true => (StatusCode::OK, "ok\n"),
            false => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
        };
        let mut response = plain_text(status, text).map(Body::from);
        let no_store = HeaderValue::from_static("no-store");
        response.headers_mut().insert(CACHE_CONTROL, no_store);
        response
    }

    async fn is_ready(&self, overload: &Overload, clients: &Clients) -> bool {
        let mut cache = self.cache.lock().await;
        if let Some((at, is_ready)) = *cache
            && at.elapsed() < KEPT
        {
            return is_ready;
        }
        // The time is stored before the call. So if the client leaves before the store answers, the next health check does not call the
        // store again at once.
        *cache = Some((Instant::now(), cache.is_some_and(|(_, is_ready)| is_ready)));
        let limits = self.limits.iter().map(|limit| &**limit);
        let ready = readiness(overload, clients, &self.store, limits).await;
        let is_ready = ready.is_ok();
        *cache = Some((Instant::now(), is_ready));
        is_ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTE: &str = "routes: [{ path: /**, upstream: http://127.0.0.1:9000 }]";

    /// Connections that are open at the beginning of a stop may still send checks.
    #[tokio::test]
    async fn a_gateway_that_drains_is_not_ready() {
        let (settings, _) = tidegate_config::parse("gateway.yaml", ROUTE, |_| None).unwrap();
        let health = Health::new(
            "/healthz".into(),
            Store::Memory(Default::default()),
            settings.limits,
        );
        let overload = Overload::default();
        for (drains, status) in [(false, 200), (true, 503), (false, 200)] {
            let answer = health.answer(drains, &overload, &settings.clients).await;
            assert_eq!(answer.status(), status);
        }
    }
}
