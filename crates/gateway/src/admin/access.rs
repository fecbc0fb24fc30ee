//! Access rules of the admin port.
//!
//! - Health and metrics need no token. Without a token, `Host` must be an address, `localhost` or a listed name. So a web page that reaches
//!   the admin port by DNS rebinding is refused, because its requests have its own host name in `Host`.
//! - Clients, the configuration and the status page need a token. If no tokens are configured, only this machine has access. A browser
//!   sends the token as a password, or sends the cookie that the status page set. Requests with a password or a cookie are refused if a
//!   foreign page sends them.
//! - Changes need a token with the role `write`. If no tokens are configured, only this machine may make changes. A browser's password or
//!   cookie is accepted only with the port's own `Origin`, which only the status page has.

use std::net::IpAddr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, ORIGIN, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use tidegate_identity::api_keys;
use tidegate_tower::problem;

use super::Refusal;
use super::session::{Session, Sessions};
use crate::request::credentials;
use tidegate_config::{AdminSettings, AdminToken, Role};
use tidegate_net::host::{HostPattern, host_of};
use tidegate_status::page::Rights;

/// The header (Fetch metadata) in which a browser reports whether a page of the same origin sent the request.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// The header (Fetch metadata) in which a browser reports the kind of a request, such as `navigate` for a link.
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// The sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker<'a> {
    /// The holder of this token. The session is `None` if the request contains the token itself, and not only the cookie.
    Token(&'a AdminToken, Option<Session>),
    /// A client on this machine, if no tokens are configured.
    Local,
}

impl Asker<'_> {
    /// Returns the name for audit lines. A token cannot have the name `no token`, because names have no blanks.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Token(token, _) => &token.name,
            Self::Local => "no token",
        }
    }

    /// Returns the rights that the status page shows.
    pub(super) fn rights(&self) -> Rights {
        match self {
            Self::Token(token, _) if token.role == Role::Write => Rights::Write,
            Self::Token(..) => Rights::Read,
            Self::Local => Rights::Local,
        }
    }
}

/// The access rules of one admin port.
#[derive(Debug)]
pub(super) struct Access<'a> {
    tokens: &'a [AdminToken],
    is_loopback: bool,
    hosts: &'a [HostPattern],
    sessions: &'a Sessions,
    port: u16,
}

impl<'a> Access<'a> {
    /// Returns the access rules of `settings`. `sessions` signs the cookies of the status page.
    pub(super) fn new(settings: &'a AdminSettings, sessions: &'a Sessions) -> Self {
        Self {
            tokens: &settings.tokens,
            is_loopback: settings.address.ip().to_canonical().is_loopback(),
            hosts: &settings.hosts,
            sessions,
            port: settings.address.port(),
        }
    }

    /// Checks a request about health or metrics, which needs no token.
    ///
    /// # Errors
    ///
    /// The request may come from a web page. The error is the answer.
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

    /// Returns the sender of a request for clients or the configuration, or of a change.
    ///
    /// # Errors
    ///
    /// The sender has no access. The error is the answer.
    pub(super) fn asker(&self, method: &Method, headers: &HeaderMap) -> Result<Asker<'a>, Refusal> {
        let reads = [Method::GET, Method::HEAD].contains(method);
        let is_foreign = self.may_be_of_a_page(headers);
        if !self.tokens.is_empty() {
            // A browser adds passwords and cookies to requests of any page, so a change must come from the port's own page.
            let is_ours = !is_foreign && (reads || headers.contains_key(ORIGIN));
            let by_bearer = self.by_bearer(headers).map(|token| (token, None));
            let sender = by_bearer.or_else(|| is_ours.then(|| self.by_browser(headers)).flatten());
            let (token, session) = sender.ok_or_else(|| unauthorized(headers))?;
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

    /// Returns a cookie for later requests of the status page. The page's HTML document always sets the cookie. Other answers renew the
    /// cookie when half of its life is over. `None` if no cookie is needed.
    pub(super) fn cookie(&self, asker: Asker<'_>, is_document: bool) -> Option<HeaderValue> {
        let Asker::Token(token, session) = asker else {
            return None;
        };
        let sessions = self.sessions;
        sessions.cookie(self.port, &token.sha256, session, is_document)
    }

    /// Returns the token that `Authorization: Bearer` contains.
    fn by_bearer(&self, headers: &HeaderMap) -> Option<&'a AdminToken> {
        self.token(credentials::bearer(credentials::authorization(headers)?)?)
    }

    /// Returns the token that a request sends as a password, or the token of its cookie.
    fn by_browser(&self, headers: &HeaderMap) -> Option<(&'a AdminToken, Option<Session>)> {
        let password = credentials::authorization(headers).and_then(credentials::password);
        if let Some(token) = password.and_then(|shown| self.token(&shown)) {
            return Some((token, None));
        }
        self.tokens.iter().find_map(|token| {
            let session = self.sessions.of(headers, self.port, &token.sha256)?;
            Some((token, Some(session)))
        })
    }

    /// Returns the configured token that equals `shown`. Compares all tokens, and each in constant time, so that the time reveals no token.
    fn token(&self, shown: &[u8]) -> Option<&'a AdminToken> {
        let sha256 = api_keys::hash(shown);
        let mut result = None;
        for token in self.tokens {
            if verify_slices_are_equal(&sha256, &token.sha256).is_ok() {
                result = Some(token);
            }
        }
        result
    }

    /// Whether a browser may have sent the request for a foreign page: Fetch metadata, `Origin` or `Host` name a foreign site. Browsers
    /// always send `Host`, so a request without it is not from a browser.
    fn may_be_of_a_page(&self, headers: &HeaderMap) -> bool {
        let own_host = |host: &HeaderValue| host.to_str().is_ok_and(|host| self.is_own(host));
        let own_origin = |origin: &HeaderValue| {
            let origin = origin.to_str().unwrap_or_default();
            let behind = origin.strip_prefix("http://");
            let authority = behind.or_else(|| origin.strip_prefix("https://"));
            let host = headers.get(HOST).map(HeaderValue::as_bytes);
            authority
                .is_some_and(|it| host.is_some_and(|host| host.eq_ignore_ascii_case(it.as_bytes())))
        };
        // A foreign page may link to this port, but must send no other requests.
        let is_link = headers
            .get(SEC_FETCH_MODE)
            .is_some_and(|mode| mode == "navigate");
        let of_elsewhere = |site: &HeaderValue| site != "same-origin" && site != "none";
        !headers.get_all(HOST).iter().all(own_host)
            || !headers.get_all(ORIGIN).iter().all(own_origin)
            || headers.get(SEC_FETCH_SITE).is_some_and(of_elsewhere) && !is_link
    }

    /// Whether `Host` names an address, this machine or a listed name. A web page of another site cannot send such a `Host`.
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
    // Both challenges are in one header, because some clients read only the first header. `Basic` comes first, because Chromium reads only
    // the first challenge.
    let challenges = HeaderValue::from_static(
        "Basic realm=\"tidegate admin: any user, and the token as password\", charset=\"UTF-8\", Bearer realm=\"tidegate admin\"",
    );
    response.headers_mut().insert(WWW_AUTHENTICATE, challenges);
    Box::new(response)
}
