//! Who may ask what on the admin port.
//!
//! - Health and metrics: whoever reaches the port by an address, as `localhost`, or by a name that is listed. A web page that
//!   was given a name for this address (DNS rebinding) asks by that name.
//! - Clients, the configuration and the status page: whoever has a token, and without tokens whoever is on this machine. A browser
//!   sends the token as a password, or the cookie that the status page set. In both cases it must be the status page itself that
//!   asks.
//! - A change: whoever has a token with the role `write`, and without tokens whoever is on this machine. What a browser sends by
//!   itself is enough only for the status page: the request needs the port's own `Origin`.

use std::net::IpAddr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, ORIGIN, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use tidegate_identity::api_keys;
use tidegate_tower::problem;

use super::session::{Session, Sessions};
use super::{Refusal, credentials};
use tidegate_config::{AdminPlan, AdminToken, Role};
use tidegate_net::host::{HostPattern, host_of};
use tidegate_status::page::Rights;

/// Who makes a request: a browser says so of its pages.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker<'a> {
    /// Whoever has this token; with the session, if only its cookie was shown.
    Token(&'a AdminToken, Option<Session>),
    /// Whoever is on this machine, because there are no tokens.
    Local,
}

impl Asker<'_> {
    /// What audit lines call them. No token has the second name, which has a blank.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Token(token, _) => &token.name,
            Self::Local => "no token",
        }
    }

    /// What they may change on the status page.
    pub(super) fn rights(&self) -> Rights {
        match self {
            Self::Token(token, _) if token.role == Role::Write => Rights::Write,
            Self::Token(..) => Rights::Read,
            Self::Local => Rights::Local,
        }
    }
}

/// The rule of one admin port.
#[derive(Debug)]
pub(super) struct Access<'a> {
    tokens: &'a [AdminToken],
    is_loopback: bool,
    hosts: &'a [HostPattern],
    sessions: &'a Sessions,
    port: u16,
}

impl<'a> Access<'a> {
    /// The cookies of this process's status page are signed with `sessions`.
    pub(super) fn new(plan: &'a AdminPlan, sessions: &'a Sessions) -> Self {
        Self {
            tokens: &plan.tokens,
            is_loopback: plan.address.ip().to_canonical().is_loopback(),
            hosts: &plan.hosts,
            sessions,
            port: plan.address.port(),
        }
    }

    /// Checks a request about health or metrics, which needs no token.
    ///
    /// # Errors
    ///
    /// It may be of a page. The error is the answer.
    pub(super) fn check_open(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if self.may_be_of_a_page(headers) && self.by_bearer(headers).is_none() {
            return Err(forbidden(
                "foreign_host",
                "The admin port refuses web pages, and host names that are not listed. Use its address, send its token, or list \
                 the name: admin: { address: …, hosts: [name] }.",
            ));
        }
        Ok(())
    }

    /// Who asks about clients or the configuration, or wants to change something.
    ///
    /// # Errors
    ///
    /// They may not; the answer that says so.
    pub(super) fn asker(&self, method: &Method, headers: &HeaderMap) -> Result<Asker<'a>, Refusal> {
        let reads = [Method::GET, Method::HEAD].contains(method);
        let is_foreign = self.may_be_of_a_page(headers);
        if !self.tokens.is_empty() {
            // What a browser sends by itself is no consent: a change must come from a page of ours.
            let is_ours = !is_foreign && (reads || headers.contains_key(ORIGIN));
            let by_browser = || is_ours.then(|| self.by_browser(headers)).flatten();
            let by_bearer = self.by_bearer(headers).map(|token| (token, None));
            let found = by_bearer.or_else(by_browser);
            let (token, session) = found.ok_or_else(|| unauthorized(headers))?;
            return match reads || token.role == Role::Write {
                true => Ok(Asker::Token(token, session)),
                false => Err(forbidden(
                    "admin_role_needed",
                    "This token may look, and change nothing. A change needs a token with `role: write`.",
                )),
            };
        }
        if !self.is_loopback {
            return Err(forbidden(
                "admin_token_needed",
                "This port is open to other machines, so client data needs a token. Set one: \
                 admin: { address: …, token: \"${ADMIN_TOKEN}\" }; or listen on a loopback address.",
            ));
        }
        if is_foreign {
            return Err(forbidden(
                "not_for_pages",
                "Without a token, only the status page itself gets client data. Set one: \
                 admin: { address: …, token: \"${ADMIN_TOKEN}\" }.",
            ));
        }
        Ok(Asker::Local)
    }

    /// The cookie with which the status page may ask on for them. With the document there is one each time; otherwise only if
    /// half of the life of theirs is over. None: they need none.
    pub(super) fn cookie(&self, asker: Asker<'_>, is_document: bool) -> Option<HeaderValue> {
        let Asker::Token(token, session) = asker else {
            return None;
        };
        let sessions = self.sessions;
        sessions.cookie(self.port, &token.sha256, session, is_document)
    }

    /// The token that a request carries as `Authorization: Bearer`.
    fn by_bearer(&self, headers: &HeaderMap) -> Option<&'a AdminToken> {
        self.known(credentials::bearer(credentials::authorization(headers)?)?)
    }

    /// The token that a request carries as a password, or by the cookie of whoever did.
    fn by_browser(&self, headers: &HeaderMap) -> Option<(&'a AdminToken, Option<Session>)> {
        let password = credentials::authorization(headers).and_then(credentials::password);
        let by_password = password.and_then(|shown| self.known(&shown));
        let by_cookie = || {
            self.tokens.iter().find_map(|token| {
                let session = self.sessions.of(headers, self.port, &token.sha256)?;
                Some((token, Some(session)))
            })
        };
        by_password.map(|token| (token, None)).or_else(by_cookie)
    }

    /// The token that is shown, if it is one. All are compared, each in the time that every wrong one takes.
    fn known(&self, shown: &[u8]) -> Option<&'a AdminToken> {
        let sha256 = api_keys::hash(shown);
        let mut found = None;
        for token in self.tokens {
            if verify_slices_are_equal(&sha256, &token.sha256).is_ok() {
                found = Some(token);
            }
        }
        found
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

fn forbidden(error: &'static str, detail: &str) -> Refusal {
    Box::new(problem(StatusCode::FORBIDDEN, error, detail))
}

fn unauthorized(headers: &HeaderMap) -> Refusal {
    let error = match headers.contains_key(AUTHORIZATION) {
        true => "admin_token_wrong",
        false => "admin_token_needed",
    };
    let mut response: Response<Bytes> = problem(
        StatusCode::UNAUTHORIZED,
        error,
        "Client data needs a token of the admin port: in the header Authorization: Bearer TOKEN, or as the password of any user.",
    );
    // One header, because some clients read the first header only. `Basic` first, because Chromium reads the first challenge only.
    let challenges = HeaderValue::from_static(
        "Basic realm=\"tidegate admin: any user, and the token as password\", charset=\"UTF-8\", Bearer realm=\"tidegate admin\"",
    );
    response.headers_mut().insert(WWW_AUTHENTICATE, challenges);
    Box::new(response)
}
