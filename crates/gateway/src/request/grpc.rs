//! Refuses gRPC calls in gRPC's own form: the status is 200, and the head has a gRPC status in place of trailers.

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::response::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version};

use crate::body::Body;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// The time until a client should retry automatically, in ms (gRFC A6).
const GRPC_RETRY_PUSHBACK_MS: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// Returns the content type of a gRPC call. The answer must have the same content type. `None` if the request is not a gRPC call.
///
/// gRPC uses only HTTP/2 and POST. A request with another version or method is not a gRPC call, even if a client sends the content type
/// with it.
pub(crate) fn call<B>(request: &Request<B>) -> Option<HeaderValue> {
    if request.version() != Version::HTTP_2 || request.method() != Method::POST {
        return None;
    }
    let kind = request.headers().get(CONTENT_TYPE)?;
    is_kind(kind).then(|| kind.clone())
}

/// Whether an answer belongs to a gRPC call.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(is_kind)
}

/// Returns `grpc-status` if the trailers of an answer must have this field, because a call without it has no result. `None` if the answer
/// is not gRPC, has the status in its head, or has its trailers in its body (gRPC-Web).
pub(crate) fn trailer(method: &Method, head: &Parts) -> Option<HeaderName> {
    let kind = head.headers.get(CONTENT_TYPE)?.as_bytes();
    let is_call = method == Method::POST && head.status == StatusCode::OK && is_grpc(&head.headers);
    let has_trailers = is_call && !kind.starts_with(b"application/grpc-web");
    (has_trailers && !head.headers.contains_key(&GRPC_STATUS)).then_some(GRPC_STATUS)
}

/// Returns the status of an answer whose head has the `grpc-status` of a refusal. `None` for other answers.
pub(crate) fn refused(headers: &HeaderMap) -> Option<StatusCode> {
    const UNAVAILABLE: &[u8] = b"14";
    match headers.get(&GRPC_STATUS)?.as_bytes() {
        b"0" => None,
        UNAVAILABLE => Some(StatusCode::SERVICE_UNAVAILABLE),
        _ => Some(StatusCode::BAD_REQUEST),
    }
}

fn is_kind(kind: &HeaderValue) -> bool {
    let rest = kind.as_bytes().strip_prefix(b"application/grpc");
    // Accepts suffixes such as `+proto`, `;charset=…` or `-web-text`, but not `application/grpcish`.
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b'-')))
}

/// Translates an answer of the gateway for a gRPC client. Replaces the headers that describe the body. Keeps all other headers, such as the
/// rate-limit headers.
///
/// `meant` is the original status of the answer, if the configuration may have changed the status.
pub(crate) fn translate(
    mut answer: Response<Body>,
    kind: HeaderValue,
    meant: Option<StatusCode>,
) -> Response<Body> {
    let meant = meant.unwrap_or(answer.status());
    let code = code(meant);
    let message = escaped(&detail(&answer, meant));
    let headers = answer.headers_mut();
    if let Some(seconds) = headers.get(RETRY_AFTER).and_then(seconds) {
        headers.insert(GRPC_RETRY_PUSHBACK_MS, seconds.saturating_mul(1_000).into());
    }
    headers.remove(CONTENT_LENGTH);
    headers.insert(CONTENT_TYPE, kind);
    headers.insert(GRPC_STATUS, code.into());
    if let Ok(message) = HeaderValue::try_from(message) {
        headers.insert(GRPC_MESSAGE, message);
    }
    *answer.status_mut() = StatusCode::OK;
    answer.map(|_| Body::empty())
}

/// Returns the gRPC code for an HTTP status. The codes are from gRPC's own mapping. For limits, timeouts and sizes, they are the codes that
/// gRPC servers use.
const fn code(status: StatusCode) -> u16 {
    const DEADLINE_EXCEEDED: u16 = 4;
    const PERMISSION_DENIED: u16 = 7;
    const RESOURCE_EXHAUSTED: u16 = 8;
    const UNIMPLEMENTED: u16 = 12;
    const INTERNAL: u16 = 13;
    const UNAVAILABLE: u16 = 14;
    const UNAUTHENTICATED: u16 = 16;
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::PAYLOAD_TOO_LARGE => RESOURCE_EXHAUSTED,
        StatusCode::UNAUTHORIZED => UNAUTHENTICATED,
        StatusCode::FORBIDDEN => PERMISSION_DENIED,
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => UNIMPLEMENTED,
        StatusCode::GATEWAY_TIMEOUT | StatusCode::REQUEST_TIMEOUT => DEADLINE_EXCEEDED,
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE => UNAVAILABLE,
        _ => INTERNAL,
    }
}

/// Returns the `detail` of an answer that is a problem. For any other answer, returns the name of the status.
fn detail(answer: &Response<Body>, meant: StatusCode) -> String {
    let problem = answer.body().whole();
    let problem = problem.and_then(|body| serde_json::from_slice::<serde_json::Value>(body).ok());
    problem
        .as_ref()
        .and_then(|problem| problem["detail"].as_str())
        .unwrap_or_else(|| meant.canonical_reason().unwrap_or_default())
        .to_owned()
}

/// Percent-encodes `%`, and all bytes that are not printable ASCII.
fn escaped(message: &str) -> String {
    let escaped = message.bytes().map(|byte| match byte {
        b' '..=b'~' if byte != b'%' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    escaped.collect()
}

fn seconds(value: &HeaderValue) -> Option<u64> {
    value.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(version: Version, method: Method, kind: &'static str) -> Request<()> {
        let request = Request::builder().version(version).method(method);
        request.header(CONTENT_TYPE, kind).body(()).unwrap()
    }

    fn kind(text: &'static str) -> Option<HeaderValue> {
        call(&request(Version::HTTP_2, Method::POST, text))
    }

    #[test]
    fn a_call_is_known_by_its_content_type() {
        for text in [
            "application/grpc",
            "application/grpc+proto",
            "application/grpc;charset=utf-8",
            "application/grpc-web",
            "application/grpc-web-text+proto",
        ] {
            assert_eq!(kind(text).unwrap(), text);
        }
        for text in ["application/grpcish", "application/json", "grpc", ""] {
            assert_eq!(kind(text), None, "{text}");
        }
        let post = Request::post("/").version(Version::HTTP_2);
        assert_eq!(call(&post.body(()).unwrap()), None);
        for (version, method) in [
            (Version::HTTP_11, Method::POST),
            (Version::HTTP_10, Method::POST),
            (Version::HTTP_2, Method::GET),
            (Version::HTTP_2, Method::PUT),
        ] {
            let other = request(version, method, "application/grpc");
            assert_eq!(call(&other), None, "{other:?}");
        }
    }

    #[test]
    fn messages_are_escaped() {
        assert_eq!(escaped("50% ä\n"), "50%25 %C3%A4%0A");
    }
}
