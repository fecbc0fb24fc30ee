//! Finds out whether facts that a log lacks could change the route of a request.

use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Request, Uri};
use tidegate_config::Settings;
use tidegate_logs::{Field, Fields};
use tidegate_net::host::HostPattern;

use crate::request::Given;
use crate::router::Router;

/// The values that one route requires for facts that the log lacks.
#[derive(Debug)]
pub(crate) struct Variant {
    host: Option<HeaderValue>,
    query: Option<String>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// Returns one variant for each route that needs a fact that the log lacks.
pub(crate) fn variants(settings: &Settings, fields: &Fields, given: &Given) -> Vec<Variant> {
    let lacks_host = !fields.has(Field::Host) && given.host.is_none();
    let lacks_query = !fields.has(Field::Query);
    let mut variants = Vec::new();
    for route in &settings.routes {
        let host = route.shape.host.as_ref().filter(|_| lacks_host);
        let host = host.map(|host| match host {
            HostPattern::Exact(host) => host.clone(),
            HostPattern::Below(suffix) => format!("any{suffix}"),
        });
        let mut variant = Variant {
            host: host.and_then(|host| HeaderValue::try_from(host).ok()),
            query: None,
            headers: Vec::new(),
        };
        if let Some(conditions) = &route.shape.conditions {
            if lacks_query && !conditions.query.is_empty() {
                let pairs = conditions.query.iter();
                let pairs: Vec<_> = pairs
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                variant.query = Some(pairs.join("&"));
            }
            let headers = conditions.headers.iter();
            let lacking = headers.filter(|(name, _)| !fields.has_header(name.as_str()));
            variant.headers.extend(lacking.cloned());
        }
        if variant.host.is_some() || variant.query.is_some() || !variant.headers.is_empty() {
            variants.push(variant);
        }
    }
    variants
}

impl Variant {
    /// Returns the route of the request with the values of this variant added.
    pub(crate) fn route(&self, router: &dyn Router, request: &Request<()>) -> Option<usize> {
        let mut tried = Request::new(());
        *tried.method_mut() = request.method().clone();
        *tried.uri_mut() = request.uri().clone();
        *tried.headers_mut() = request.headers().clone();
        if let Some(host) = &self.host {
            tried.headers_mut().insert(HOST, host.clone());
        }
        for (name, value) in &self.headers {
            tried.headers_mut().insert(name, value.clone());
        }
        if let Some(query) = &self.query {
            let target = format!("{}?{query}", request.uri().path());
            if let Ok(target) = PathAndQuery::try_from(target) {
                *tried.uri_mut() = Uri::from(target);
            }
        }
        router.route(&mut tried)
    }
}
