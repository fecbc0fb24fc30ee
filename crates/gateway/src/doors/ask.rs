//! `/v1/ask`: a proxy asks about a request before it forwards the request.
//!
//! Some proxies send the original request in headers (Traefik, Caddy, nginx). Envoy sends it as the request itself, with a prefix before
//! the path.

use http::header::{CONTENT_TYPE, HOST};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri, Version};
use tidegate_server::ConnectionInfo;

use super::ASK;
use crate::body::Body;
use crate::request::problem::Problem;
use crate::request::record::Ended;

const X_FORWARDED_METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
const X_FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_ORIGINAL_METHOD: HeaderName = HeaderName::from_static("x-original-method");
const X_ORIGINAL_URI: HeaderName = HeaderName::from_static("x-original-uri");
const X_ORIGINAL_URL: HeaderName = HeaderName::from_static("x-original-url");

/// The header with the status of a refusal that is sent as 403.
const X_REFUSED_STATUS: HeaderName = HeaderName::from_static("x-refused-status");

/// The form of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AskAnswer {
    /// Whether each refusal except 401 is sent as 403 (`refuse=403`). nginx accepts no other status for a refusal.
    is_forbidden: bool,
}

impl AskAnswer {
    /// Reads the query of a question. Ignores other parameters, because some proxies add the query of the client's request. The query of a
    /// path below [`ASK`] belongs to the original request.
    pub(super) fn of(question: &Uri) -> Self {
        let query = question.query().filter(|_| question.path() == ASK);
        let mut parameters = query.unwrap_or_default().split('&');
        Self {
            is_forbidden: parameters.any(|parameter| parameter == "refuse=403"),
        }
    }

    /// Adapts an answer for the proxy that asks. A refusal as 403 has no body: nginx drops the body, and would close its connection.
    pub(super) fn adapt(self, mut response: Response<Ended>) -> Response<Ended> {
        let status = response.status();
        if !self.is_forbidden || status.is_success() {
            return response;
        }
        if status != StatusCode::UNAUTHORIZED {
            *response.status_mut() = StatusCode::FORBIDDEN;
            let headers = response.headers_mut();
            headers.insert(X_REFUSED_STATUS, status.as_u16().into());
        }
        response.headers_mut().remove(CONTENT_TYPE);
        response.map(|_| Ended::without_end(Body::empty()))
    }
}

/// Makes the head of the request that a proxy asks about. The head stays as it is if the question is refused.
pub(super) fn become_original(
    head: &mut Parts,
    connection: &ConnectionInfo,
) -> Result<(), Problem> {
    if !connection.is_trusted() {
        return Err(UNTRUSTED);
    }
    match head.uri.path() == ASK {
        true => by_headers(head)?,
        false => by_path(head)?,
    }
    head.version = Version::HTTP_11;
    for name in [
        X_FORWARDED_METHOD,
        X_FORWARDED_URI,
        X_FORWARDED_HOST,
        X_ORIGINAL_METHOD,
        X_ORIGINAL_URI,
        X_ORIGINAL_URL,
    ] {
        head.headers.remove(name);
    }
    Ok(())
}

/// Makes the original request of the headers that describe it. Proxies pass on `X-Original-*` of their clients, so these headers count only
/// without `X-Forwarded-Uri`.
fn by_headers(head: &mut Parts) -> Result<(), Problem> {
    let headers = &head.headers;
    let (target, method, host) = if let Some(target) = one(headers, &X_FORWARDED_URI)? {
        let method = one(headers, &X_FORWARDED_METHOD)?;
        let host = one(headers, &X_FORWARDED_HOST)?;
        (uri(target)?, method, host.cloned())
    } else {
        let target = one(headers, &X_ORIGINAL_URI)?.or(one(headers, &X_ORIGINAL_URL)?);
        let target = uri(target.ok_or(NO_ORIGINAL)?)?;
        let host = target.authority();
        let host = host.and_then(|host| HeaderValue::from_str(host.as_str()).ok());
        (target, one(headers, &X_ORIGINAL_METHOD)?, host)
    };
    let target = target.into_parts().path_and_query.ok_or(BAD_ORIGINAL)?;
    let method = method.map(|it| Method::from_bytes(it.as_bytes()).map_err(|_| BAD_ORIGINAL));
    head.method = method.transpose()?.unwrap_or(Method::GET);
    become_target(head, target, host);
    Ok(())
}

/// Makes the original request of the request itself, without the prefix of its path.
fn by_path(head: &mut Parts) -> Result<(), Problem> {
    let target = head.uri.path_and_query().ok_or(BAD_ORIGINAL)?.as_str();
    let target = target.strip_prefix(ASK).ok_or(BAD_ORIGINAL)?;
    let target = target.parse().map_err(|_| BAD_ORIGINAL)?;
    become_target(head, target, None);
    Ok(())
}

/// Replaces the target of a head, and its host unless `host` is `None`.
fn become_target(head: &mut Parts, target: PathAndQuery, host: Option<HeaderValue>) {
    let authority = head.uri.authority();
    let authority = authority.and_then(|it| HeaderValue::from_str(it.as_str()).ok());
    if let Some(host) = host.or(authority) {
        head.headers.insert(HOST, host);
    }
    head.uri = Uri::from(target);
}

/// Returns the only value of a header.
fn one<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h HeaderValue>, Problem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err(BAD_ORIGINAL),
    }
}

fn uri(value: &HeaderValue) -> Result<Uri, Problem> {
    Uri::try_from(value.as_bytes()).map_err(|_| BAD_ORIGINAL)
}

const UNTRUSTED: Problem = Problem::new(
    StatusCode::FORBIDDEN,
    "untrusted_peer",
    "Only peers under `trusted_proxies` may ask about requests of others.",
);
const NO_ORIGINAL: Problem = Problem::new(
    StatusCode::BAD_REQUEST,
    "no_original_request",
    "The question names no request: it needs X-Forwarded-Uri, X-Original-Uri or X-Original-Url, or the path behind /v1/ask.",
);
const BAD_ORIGINAL: Problem = Problem::new(
    StatusCode::BAD_REQUEST,
    "bad_original_request",
    "The headers that describe the original request are not valid, or are there more than once.",
);
