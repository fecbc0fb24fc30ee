//! Makes the target of a request unambiguous: framing, host and path are checked once for all later steps.
//!
//! hyper refuses most malformed requests. This module also refuses requests that two servers could read in different ways.

use std::borrow::Cow;

use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, Version};

use super::problem::Problem;
use tidegate_net::head::{HeadCount, HeaderLines};
use tidegate_net::host::host_of;
use tidegate_net::path::{EncodedSlashes, PathError, normalize};

/// The most bytes of a target. The bound applies to the path with its query, and separately to the authority.
const MAX_TARGET: usize = 8 * 1024;
/// The most headers of a request.
const MAX_HEADERS: usize = 100;
/// The most bytes of all header names and values together.
const MAX_HEADER_BYTES: usize = 32 * 1024;

/// A request's host and path in their normalized spelling, with its query and headers. Routes, keys and upstreams use this spelling.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    /// The host in lower case, without its port.
    pub(crate) host: Cow<'a, str>,
    pub(crate) path: Cow<'a, str>,
    /// `Keep` if the path contains an encoded slash, which only some routes accept.
    pub(crate) encoded_slashes: EncodedSlashes,
    /// The query as the client sent it.
    pub(crate) query: Option<&'a str>,
    pub(crate) headers: &'a HeaderMap,
    /// Whether the request has the `X-Forwarded-For` header.
    pub(crate) has_x_forwarded_for: bool,
    /// Whether the request has the `Forwarded` header.
    pub(crate) has_forwarded: bool,
}

impl<'a> Target<'a> {
    /// Reads a request's target. The error is the problem to answer with.
    pub(crate) fn of<B>(request: &'a Request<B>) -> Result<Self, Problem> {
        if [Method::CONNECT, Method::TRACE].contains(request.method()) {
            return Err(METHOD_REFUSED);
        }
        if has_small_letters(request.method()) {
            return Err(BAD_METHOD);
        }
        let head = HeadCount::of(request.headers());
        check_size(request.uri(), request.headers().len(), head.bytes)?;
        if head.has_long_list() {
            return Err(BAD_LIST);
        }
        check_framing(request.version(), &head)?;
        let host = host_of(authority(request, &head.host)?).ok_or(BAD_HOST)?;
        let raw = request.uri().path();
        let (path, encoded_slashes) = match normalize(raw, EncodedSlashes::Reject) {
            Err(PathError::EncodedSlash) => {
                let path = normalize(raw, EncodedSlashes::Keep);
                (path, EncodedSlashes::Keep)
            }
            path => (path, EncodedSlashes::Reject),
        };
        Ok(Self {
            host,
            path: path.map_err(|_| BAD_PATH)?,
            encoded_slashes,
            query: request.uri().query(),
            headers: request.headers(),
            has_x_forwarded_for: head.has_x_forwarded_for,
            has_forwarded: head.has_forwarded,
        })
    }
}

/// Returns the normalized URI and the Host header for the later steps and for the upstream. Each value is `None` if it needs no change.
pub(crate) fn rewritten<B>(
    request: &Request<B>,
    target: &Target<'_>,
) -> (Option<Uri>, Option<HeaderValue>) {
    let uri = match &target.path {
        Cow::Borrowed(_) => None,
        Cow::Owned(path) => {
            let query = request.uri().query();
            let text = query.map_or_else(|| path.clone(), |query| format!("{path}?{query}"));
            Uri::try_from(text).ok()
        }
    };
    let authority = request.uri().authority();
    let host = authority.and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
    (uri, host)
}

/// Whether a method has a lower-case letter. Methods are case-sensitive, but many upstreams read `post` as `POST`. So a request with `post`
/// would evade the routes of `POST`.
fn has_small_letters(method: &Method) -> bool {
    method
        .as_str()
        .bytes()
        .any(|byte| byte.is_ascii_lowercase())
}

fn check_size(uri: &Uri, headers: usize, header_bytes: usize) -> Result<(), Problem> {
    let path = uri.path_and_query().map_or(0, |path| path.as_str().len());
    let authority = uri
        .authority()
        .map_or(0, |authority| authority.as_str().len());
    if path.max(authority) > MAX_TARGET {
        return Err(LONG_TARGET);
    }
    if headers > MAX_HEADERS || header_bytes > MAX_HEADER_BYTES {
        return Err(LARGE_HEADERS);
    }
    Ok(())
}

/// Checks the framing. The only accepted transfer coding is a single `chunked`. hyper accepts other codings, too, but servers read them in
/// different ways.
fn check_framing(version: Version, head: &HeadCount<'_>) -> Result<(), Problem> {
    let (codings, lengths) = (&head.transfer_encoding, &head.content_length);
    if codings.count > 0 {
        let only = codings.only();
        let chunked = only.is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"chunked"));
        if !chunked || lengths.count > 0 || version != Version::HTTP_11 {
            return Err(BAD_FRAMING);
        }
    }
    if lengths.count > 1 {
        return Err(BAD_FRAMING);
    }
    Ok(())
}

/// Returns the authority of a request, from its target or from its Host header. HTTP/1 requires exactly one Host header.
fn authority<'a, B>(request: &'a Request<B>, hosts: &HeaderLines<'a>) -> Result<&'a str, Problem> {
    let header = hosts
        .first
        .map(|host| host.to_str().map_err(|_| BAD_HOST))
        .transpose()?;
    let uri = request.uri();
    let scheme_is_ours = uri
        .scheme()
        .is_none_or(|scheme| [Scheme::HTTP, Scheme::HTTPS].contains(scheme));
    if hosts.count > 1 || !scheme_is_ours {
        return Err(BAD_HOST);
    }
    let in_target = uri.authority().map(|authority| authority.as_str());
    match (in_target, header) {
        // In HTTP/1 the target replaces the Host header (RFC 9112, 3.2.2). In HTTP/2 the authority of the target and the Host header must
        // be equal.
        (Some(target), Some(host)) if request.version() == Version::HTTP_2 && target != host => {
            Err(BAD_HOST)
        }
        (Some(target), Some(_)) => Ok(target),
        (Some(target), None) if request.version() == Version::HTTP_2 => Ok(target),
        (None, Some(host)) => Ok(host),
        (_, None) => Err(BAD_HOST),
    }
}

const METHOD_REFUSED: Problem = Problem::new(
    StatusCode::METHOD_NOT_ALLOWED,
    "method_not_allowed",
    "This gateway serves neither CONNECT nor TRACE.",
);
const BAD_METHOD: Problem = Problem::new(
    StatusCode::BAD_REQUEST,
    "bad_method",
    "The method must be in capital letters, such as POST.",
);
pub(crate) const LONG_TARGET: Problem = Problem::new(
    StatusCode::URI_TOO_LONG,
    "target_too_long",
    "The target is longer than 8 KiB.",
);
pub(crate) const LARGE_HEADERS: Problem = Problem::new(
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    "headers_too_large",
    "There are more than 100 headers, or more than 32 KiB of them.",
);
const BAD_FRAMING: Problem = Problem::new(
    StatusCode::BAD_REQUEST,
    "bad_framing",
    "The request gives the length of its body more than once, or in a wrong form.",
);
const BAD_HOST: Problem = Problem::new(
    StatusCode::BAD_REQUEST,
    "bad_host",
    "The request does not name exactly one host.",
);
const BAD_LIST: Problem = Problem::new(
    StatusCode::BAD_REQUEST,
    "bad_list",
    "Connection, TE or Upgrade has more than 100 elements.",
);
pub(crate) const BAD_HEAD: Problem = Problem::new(
    StatusCode::BAD_REQUEST,
    "bad_head",
    "The request line or a header cannot be read.",
);
pub(crate) const CONTROL_FRAMES: Problem = Problem::new(
    StatusCode::BAD_REQUEST,
    "control_frames",
    "The HTTP/2 connection had too many control frames beside its requests.",
);
pub(crate) const BAD_PATH: Problem = Problem::new(
    StatusCode::BAD_REQUEST,
    "bad_path",
    "The path has characters that servers read in different ways, such as %2F.",
);
