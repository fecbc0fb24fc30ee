//! Who may ask what on the admin port.
//!
//! - Health and metrics: whoever reaches the port by an address, as `localhost`, or by a name that is listed. A web page that
//!   was given a name for this address (DNS rebinding) asks by that name.
//! - Clients and the configuration: whoever has the token, and without one whoever is on this machine.

use std::net::IpAddr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, ORIGIN, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use tidegate_tower::problem;

use tidegate_config::{AdminPlan, Secret};
use tidegate_net::host::{HostPattern, host_of};

/// The rule of one admin port.
#[derive(Debug)]
pub(super) struct Access<'a> {
    token: Option<&'a Secret>,
    is_loopback: bool,
    hosts: &'a [HostPattern],
}

impl<'a> Access<'a> {
    pub(super) fn new(plan: &'a AdminPlan) -> Self {
        Self {
            token: plan.token.as_ref(),
            is_loopback: plan.address.ip().to_canonical().is_loopback(),
            hosts: &plan.hosts,
        }
    }

    /// The answer to a request about health or metrics in place of a page, if there is one.
    pub(super) fn open_refusal(&self, headers: &HeaderMap) -> Option<Response<Bytes>> {
        let is_refused = self.may_be_of_a_page(headers) && !self.is_shown(headers);
        is_refused.then(|| {
            problem(
                StatusCode::FORBIDDEN,
                "foreign_host",
                "The admin port refuses web pages, and host names that are not listed. Use its address, send its token, or list \
                 the name: admin: { address: …, hosts: [name] }.",
            )
        })
    }

    /// The answer to a request about clients or the configuration in place of a page, if there is one.
    pub(super) fn refusal(&self, headers: &HeaderMap) -> Option<Response<Bytes>> {
        if self.is_shown(headers) {
            return None;
        }
        if self.token.is_some() {
            return Some(unauthorized());
        }
        if !self.is_loopback {
            return Some(problem(
                StatusCode::FORBIDDEN,
                "admin_token_needed",
                "This port is open to other machines, so client data needs a token. Set one: \
                 admin: { address: …, token: \"${ADMIN_TOKEN}\" }; or listen on a loopback address.",
            ));
        }
        self.may_be_of_a_page(headers).then(|| {
            problem(
                StatusCode::FORBIDDEN,
                "not_for_pages",
                "Without a token, web pages get no client data. Set one: \
                 admin: { address: …, token: \"${ADMIN_TOKEN}\" }.",
            )
        })
    }

    /// Whether a request carries the token, compared in the time that every wrong one takes.
    fn is_shown(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (Some(token), Some(value), None) = (self.token, values.next(), values.next()) else {
            return false;
        };
        let Some((scheme, shown)) = value.as_bytes().split_at_checked(b"Bearer ".len()) else {
            return false;
        };
        scheme.eq_ignore_ascii_case(b"Bearer ")
            && verify_slices_are_equal(shown.trim_ascii(), token.expose().as_bytes()).is_ok()
    }

    /// Whether a browser may send this for a page of somebody else's: it says so in `Origin`, or asks under a name of the
    /// page's choice. A request without `Host` is of no browser.
    fn may_be_of_a_page(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let is_ours = hosts.all(|host| host.to_str().is_ok_and(|host| self.is_own(host)));
        headers.contains_key(ORIGIN) || !is_ours
    }

    /// Whether `Host` names an address, this machine, or a listed name. A page cannot make itself one of these.
    fn is_own(&self, authority: &str) -> bool {
        let Some(host) = host_of(authority) else {
            return false;
        };
        let address = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost"
            || address.parse::<IpAddr>().is_ok()
            || self.hosts.iter().any(|own| own.matches(&host))
    }
}

fn unauthorized() -> Response<Bytes> {
    let mut response = problem(
        StatusCode::UNAUTHORIZED,
        "admin_token_needed",
        "Client data needs the token of the admin port, in the header Authorization: Bearer TOKEN.",
    );
    let challenge = HeaderValue::from_static("Bearer realm=\"tidegate admin\"");
    response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    response
}
