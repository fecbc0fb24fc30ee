//! CORS, a part of the Fetch standard, allows pages of other origins to read a route's answers.
//!
//! Browsers send a preflight before some requests, and check the headers of every answer. CORS can keep pages from reading answers. It
//! cannot keep clients from sending requests, so limits are still needed.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};

use crate::body::Body;
use tidegate_config::routes::{CorsSettings, Origins};

/// The header that permits pages on the internet to send requests into a private network (Chromium). The gateway only removes this header.
const ACCESS_CONTROL_ALLOW_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-allow-private-network");

/// Returns the method of the request that a preflight announces. `None` if `request` is not a preflight.
pub(crate) fn preflight_method<B>(request: &Request<B>) -> Option<Method> {
    if request.method() != Method::OPTIONS || !request.headers().contains_key(ORIGIN) {
        return None;
    }
    let method = request.headers().get(ACCESS_CONTROL_REQUEST_METHOD)?;
    Method::from_bytes(method.as_bytes()).ok()
}

/// Returns the answer to a preflight. The caller adds the CORS headers.
pub(crate) fn answered() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// The CORS headers of one route.
#[derive(Debug)]
pub(crate) struct Cors {
    origins: Origins,
    credentials: bool,
    expose: HeaderValue,
    preflight: Vec<(HeaderName, HeaderValue)>,
}

impl Cors {
    pub(crate) fn new(settings: &CorsSettings) -> Self {
        let methods = list(settings.methods.iter().map(Method::as_str));
        let headers = list(settings.headers.iter().map(HeaderName::as_str));
        let max_age = settings.max_age.map(|age| age.as_secs().into());
        let preflight = [
            (ACCESS_CONTROL_ALLOW_METHODS, methods),
            (ACCESS_CONTROL_ALLOW_HEADERS, headers),
            (ACCESS_CONTROL_MAX_AGE, max_age),
        ];
        let expose = list(settings.expose.iter().map(HeaderName::as_str));
        Self {
            origins: settings.origins.clone(),
            credentials: settings.credentials,
            expose: expose.unwrap_or(HeaderValue::from_static("")),
            preflight: preflight
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)))
                .collect(),
        }
    }

    /// Removes the CORS headers that the upstream set. Sets the route's own CORS headers if a page of `origin` may read the answer.
    pub(crate) fn tell(
        &self,
        origin: Option<HeaderValue>,
        answers_preflight: bool,
        headers: &mut HeaderMap,
    ) {
        for name in [
            ACCESS_CONTROL_ALLOW_CREDENTIALS,
            ACCESS_CONTROL_ALLOW_HEADERS,
            ACCESS_CONTROL_ALLOW_METHODS,
            ACCESS_CONTROL_ALLOW_ORIGIN,
            ACCESS_CONTROL_ALLOW_PRIVATE_NETWORK,
            ACCESS_CONTROL_EXPOSE_HEADERS,
            ACCESS_CONTROL_MAX_AGE,
        ] {
            headers.remove(name);
        }
        let allowed = match &self.origins {
            // `*` is the same for all origins, so a cache may use one answer for all of them.
            Origins::Any => HeaderValue::from_static("*"),
            Origins::Listed(listed) => {
                vary_by_origin(headers);
                match origin.filter(|own| listed.iter().any(|it| it.matches(own.as_bytes()))) {
                    Some(origin) => origin,
                    None => return,
                }
            }
        };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        if self.credentials {
            let yes = HeaderValue::from_static("true");
            headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, yes);
        }
        if answers_preflight {
            headers.extend(self.preflight.iter().cloned());
        } else {
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, self.expose.clone());
        }
    }
}

/// Returns a header value with a list; `None` if the list is empty.
fn list<'a>(items: impl Iterator<Item = &'a str>) -> Option<HeaderValue> {
    let items: Vec<_> = items.collect();
    let text = Some(items.join(", ")).filter(|text| !text.is_empty());
    text.and_then(|text| HeaderValue::try_from(text).ok())
}

/// Adds `Origin` to `Vary`, because caches must store one answer per origin.
fn vary_by_origin(headers: &mut HeaderMap) {
    let lines = headers.get_all(VARY).iter().map(HeaderValue::as_bytes);
    let lines: Vec<_> = lines.filter(|line| !line.trim_ascii().is_empty()).collect();
    let mut names = lines
        .iter()
        .flat_map(|line| line.split(|byte| *byte == b','));
    let is_said = names.any(|name| {
        let name = name.trim_ascii();
        name == b"*" || name.eq_ignore_ascii_case(ORIGIN.as_str().as_bytes())
    });
    if is_said {
        return;
    }
    let line = [&lines[..], &[b"Origin"]].concat().join(&b", "[..]);
    if let Ok(line) = HeaderValue::from_bytes(&line) {
        headers.insert(VARY, line);
    }
}
