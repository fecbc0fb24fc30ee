//! Who may ask about clients on the admin port: whoever has the token, and without one whoever is on this machine.
//!
//! Health and metrics are open to all who reach the port, and do not come here.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, ORIGIN, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use tidegate_tower::problem;

use crate::config::{AdminPlan, Secret};

/// The rule of one admin port.
#[derive(Debug)]
pub(crate) enum Access {
    /// Whoever has this token.
    Token(Secret),
    /// Whoever is on this machine: there is no token.
    Machine,
    /// Nobody: there is no token, and the port is open to other machines.
    Nobody,
}

impl Access {
    pub(crate) fn new(plan: &AdminPlan) -> Self {
        match &plan.token {
            Some(token) => Self::Token(token.clone()),
            None if plan.address.ip().to_canonical().is_loopback() => Self::Machine,
            None => Self::Nobody,
        }
    }

    /// The answer to give instead of going on, if there is one.
    pub(super) fn refusal(&self, headers: &HeaderMap) -> Option<Response<Bytes>> {
        match self {
            Self::Token(token) if holds(headers, token) => None,
            Self::Token(_) => Some(unauthorized()),
            Self::Machine if is_of_a_page(headers) => Some(problem(
                StatusCode::FORBIDDEN,
                "not_for_pages",
                "Without a token clients are not served to web pages. Configure one: \
                 admin: { address: …, token: \"${ADMIN_TOKEN}\" }.",
            )),
            Self::Machine => None,
            Self::Nobody => Some(problem(
                StatusCode::FORBIDDEN,
                "admin_token_needed",
                "Other machines reach this port, so clients are served here only with a token. Configure one: \
                 admin: { address: …, token: \"${ADMIN_TOKEN}\" }; or bind admin to a loopback address.",
            )),
        }
    }
}

/// Whether a request carries the token, compared in the time that every wrong one takes.
fn holds(headers: &HeaderMap, token: &Secret) -> bool {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return false;
    };
    let Some((scheme, shown)) = value.as_bytes().split_at_checked(b"Bearer ".len()) else {
        return false;
    };
    scheme.eq_ignore_ascii_case(b"Bearer ")
        && verify_slices_are_equal(shown.trim_ascii(), token.expose().as_bytes()).is_ok()
}

/// Whether a browser sends this for a page of somebody else's: it says so in `Origin`, or asks for this machine under a
/// name of the page's choice. Neither is how a person or a program on this machine asks.
fn is_of_a_page(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let authority = host.and_then(|host| host.parse::<http::uri::Authority>().ok());
    let is_of_machine = authority.is_some_and(|authority| {
        let host = authority.host();
        let address = host.trim_start_matches('[').trim_end_matches(']');
        host.eq_ignore_ascii_case("localhost") || address.parse::<std::net::IpAddr>().is_ok()
    });
    headers.contains_key(ORIGIN) || !is_of_machine
}

fn unauthorized() -> Response<Bytes> {
    let mut response = problem(
        StatusCode::UNAUTHORIZED,
        "admin_token_needed",
        "Clients are served here only with the token of the admin port, in the header Authorization, behind Bearer.",
    );
    let challenge = HeaderValue::from_static("Bearer realm=\"tidegate admin\"");
    response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    response
}
