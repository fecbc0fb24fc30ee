//! Who may ask what on the admin port.
//!
//! - Health and metrics: whoever reaches the port by an address, as `localhost`, or by a name that is listed. A web page that
//!   was given a name for this address (DNS rebinding) asks by that name.
//! - Clients, the configuration and the status page: whoever has the token, and without one whoever is on this machine. A browser
//!   sends the token as a password, or the cookie that the status page set. In both cases it must be the status page itself that
//!   asks.

use std::net::IpAddr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, ORIGIN, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use tidegate_tower::problem;

use tidegate_config::{AdminPlan, Secret};
use tidegate_net::basic;
use tidegate_net::host::{HostPattern, host_of};

/// The cookie of the status page.
const SESSION: &str = "tidegate_session";
/// Who makes a request: a browser says so of its pages.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// The rule of one admin port.
#[derive(Debug)]
pub(super) struct Access<'a> {
    token: Option<&'a Secret>,
    is_loopback: bool,
    hosts: &'a [HostPattern],
    sessions: &'a hmac::Key,
}

impl<'a> Access<'a> {
    /// The cookies of this process's status page are signed with `sessions`.
    pub(super) fn new(plan: &'a AdminPlan, sessions: &'a hmac::Key) -> Self {
        Self {
            token: plan.token.as_ref(),
            is_loopback: plan.address.ip().to_canonical().is_loopback(),
            hosts: &plan.hosts,
            sessions,
        }
    }

    /// The answer to a request about health or metrics in place of a page, if there is one.
    pub(super) fn open_refusal(&self, headers: &HeaderMap) -> Option<Response<Bytes>> {
        let is_refused = self.may_be_of_a_page(headers) && !self.has_bearer(headers);
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
    pub(super) fn refusal(&self, method: &Method, headers: &HeaderMap) -> Option<Response<Bytes>> {
        if self.has_bearer(headers) {
            return None;
        }
        let is_foreign = self.may_be_of_a_page(headers);
        if self.token.is_some() {
            // What a browser sends by itself is no consent: a change must come from a page of ours.
            let reads = [Method::GET, Method::HEAD].contains(method);
            let is_ours = !is_foreign && (reads || headers.contains_key(ORIGIN));
            return (!is_ours || !self.has_password(headers)).then(unauthorized);
        }
        if !self.is_loopback {
            return Some(problem(
                StatusCode::FORBIDDEN,
                "admin_token_needed",
                "This port is open to other machines, so client data needs a token. Set one: \
                 admin: { address: …, token: \"${ADMIN_TOKEN}\" }; or listen on a loopback address.",
            ));
        }
        is_foreign.then(|| {
            problem(
                StatusCode::FORBIDDEN,
                "not_for_pages",
                "Without a token, only the status page itself gets client data. Set one: \
                 admin: { address: …, token: \"${ADMIN_TOKEN}\" }.",
            )
        })
    }

    /// The cookie with which the status page may ask on; none: it needs none.
    pub(super) fn cookie(&self) -> Option<HeaderValue> {
        let session = self.session()?;
        let cookie = format!("{SESSION}={session}; HttpOnly; SameSite=Strict; Path=/");
        let mut cookie = HeaderValue::try_from(cookie).ok()?;
        cookie.set_sensitive(true);
        Some(cookie)
    }

    /// The value of the cookie: it proves the token, and does not tell it.
    fn session(&self) -> Option<String> {
        let signature = hmac::sign(self.sessions, self.token?.expose().as_bytes());
        let bytes = signature.as_ref().iter();
        Some(bytes.map(|byte| format!("{byte:02x}")).collect())
    }

    /// Whether a request carries the token, compared in the time that every wrong one takes.
    fn has_bearer(&self, headers: &HeaderMap) -> bool {
        let bearer = authorization(headers).and_then(|value| {
            let (scheme, shown) = value.split_at_checked(b"Bearer ".len())?;
            let is_bearer = scheme.eq_ignore_ascii_case(b"Bearer ");
            is_bearer.then(|| shown.trim_ascii())
        });
        bearer.is_some_and(|shown| self.is_token(shown))
    }

    /// Whether a request carries the token as a password, or the cookie of whoever did.
    fn has_password(&self, headers: &HeaderMap) -> bool {
        let password = authorization(headers).and_then(basic::password);
        password.is_some_and(|shown| self.is_token(&shown))
            || self.session().is_some_and(|session| {
                basic::cookies(headers, SESSION).any(|shown| is_equal(shown, session.as_bytes()))
            })
    }

    fn is_token(&self, shown: &[u8]) -> bool {
        self.token
            .is_some_and(|token| is_equal(shown, token.expose().as_bytes()))
    }

    /// Whether a browser may send this for a page of somebody else's: it says so, or asks under a name of the page's choice. A
    /// request without `Host` is of no browser.
    fn may_be_of_a_page(&self, headers: &HeaderMap) -> bool {
        let own_host = |host: &HeaderValue| host.to_str().is_ok_and(|host| self.is_own(host));
        let own_origin = |origin: &HeaderValue| {
            let authority = origin.to_str().ok().and_then(|origin| {
                let behind = origin.strip_prefix("http://");
                behind.or_else(|| origin.strip_prefix("https://"))
            });
            let host = headers.get(HOST).map(HeaderValue::as_bytes);
            authority
                .is_some_and(|it| host.is_some_and(|host| host.eq_ignore_ascii_case(it.as_bytes())))
        };
        // A link may lead here from elsewhere; nothing else may.
        let is_link = headers
            .get(SEC_FETCH_MODE)
            .is_some_and(|mode| mode == "navigate");
        let of_elsewhere = |site: &HeaderValue| site != "same-origin" && site != "none";
        !headers.get_all(HOST).iter().all(own_host)
            || !headers.get_all(ORIGIN).iter().all(own_origin)
            || headers.get(SEC_FETCH_SITE).is_some_and(of_elsewhere) && !is_link
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

/// The credentials, if there is one header with them.
fn authorization(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next()?.as_bytes();
    values.next().is_none().then_some(value)
}

fn is_equal(one: &[u8], other: &[u8]) -> bool {
    verify_slices_are_equal(one, other).is_ok()
}

fn unauthorized() -> Response<Bytes> {
    let mut response = problem(
        StatusCode::UNAUTHORIZED,
        "admin_token_needed",
        "Client data needs the token of the admin port: in the header Authorization: Bearer TOKEN, or as the password of any user.",
    );
    // One header: some clients read the first only.
    let challenges = HeaderValue::from_static(
        "Bearer realm=\"tidegate admin\", Basic realm=\"tidegate admin: any user, and the token as password\", charset=\"UTF-8\"",
    );
    response.headers_mut().insert(WWW_AUTHENTICATE, challenges);
    response
}
