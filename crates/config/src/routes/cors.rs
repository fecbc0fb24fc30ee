//! `cors`: the origins whose pages may read a route's answers.
//!
//! This file has the form of the key, its values, its checks, and its settings. The checks refuse values that browsers would ignore, and
//! values that would allow every page by mistake.

use std::fmt::{self, Display, Write as _};
use std::time::Duration;

use crate::yaml::{Place, Problem, Spanned};
use http::header::RETRY_AFTER;
use http::{HeaderName, Method};
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_net::origin::{NoOrigin, OriginPattern};
use tidegate_tower::{
    RATELIMIT, RATELIMIT_POLICY, RateLimitHeaders, X_RATELIMIT_LIMIT, X_RATELIMIT_REMAINING,
    X_RATELIMIT_RESET,
};

use crate::check::Check;
use crate::routes::matching::methods;
use crate::value::net::no_host;
use crate::value::{Fault, Scalar, Value};

/// The CORS rules of a route. The gateway charges preflights, then answers them itself.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cors {
    /// The origins whose pages may read answers: `https://app.example.com`, `https://*.example.com`, or `*` alone for all.
    pub(crate) origins: Spanned<Vec<Scalar<CorsOrigin>>>,
    /// The methods that pages may use. Default: the route's methods, or GET, HEAD and POST if the route has no `methods`.
    pub(crate) methods: Option<Spanned<Vec<Scalar<Method>>>>,
    /// The headers that pages may set, or `*`. Default: headers that browsers always allow, such as Accept.
    pub(crate) headers: Option<Vec<Scalar<HeaderName>>>,
    /// The headers of answers that pages may read, or `*`. Retry-After and limit headers are always readable. Default: none.
    pub(crate) expose: Option<Vec<Scalar<HeaderName>>>,
    /// Whether requests may carry credentials such as cookies. Default: false.
    pub(crate) credentials: Option<Scalar<bool>>,
    /// The longest time for which browsers keep the answer to a preflight, 1s to 1d. Default: the browser's, mostly 5s.
    pub(crate) max_age: Option<Scalar<MaxAge>>,
}

/// An entry of `origins`: the pages that may read answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CorsOrigin {
    /// Pages of any origin.
    Any,
    /// Pages of the origins that match this pattern.
    Of(OriginPattern),
}

impl Value for CorsOrigin {
    const NAME: &'static str = "Origin";
    const WHAT: &'static str = "an origin";
    const ALLOWED: &'static str = "https://app.example.com, https://*.example.com (all below it), with a port if it is not the usual one, or * alone";

    fn read(text: &str) -> Result<Self, Fault> {
        if text == "*" {
            return Ok(Self::Any);
        }
        OriginPattern::parse(text).map(Self::Of).map_err(|why| match why {
            NoOrigin::Form => no_host(text),
            NoOrigin::Null => Fault::Because(
                "`null` is the origin of sandboxed pages, which any page can create: it allows every page",
            ),
            NoOrigin::Path => Fault::Because("an origin has no path, and no slash at its end"),
            NoOrigin::UsualPort => {
                Fault::Because("browsers do not send the default port of a scheme: remove it")
            }
        })
    }
}

/// The time for which browsers may keep the answer to a preflight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MaxAge(pub(crate) Duration);

impl MaxAge {
    const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
}

impl Value for MaxAge {
    const NAME: &'static str = "MaxAge";
    const WHAT: &'static str = "a cache time for browsers";
    const ALLOWED: &'static str = "whole seconds from 1s to 1d, such as 600s or 10m";

    fn read(text: &str) -> Result<Self, Fault> {
        let age = Duration::read(text)?;
        let whole = age.subsec_nanos() == 0 && age <= Self::LONGEST;
        whole.then_some(Self(age)).ok_or(Fault::Form)
    }

    fn schema() -> serde_json::Map<String, serde_json::Value> {
        Duration::schema()
    }
}

/// The CORS rules of a route. A header called `*` stands for all headers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CorsSettings {
    /// The origins whose pages may read the route's answers.
    pub origins: Origins,
    /// The methods of requests that pages may send.
    pub methods: Vec<Method>,
    /// The request headers that pages may set.
    pub headers: Vec<HeaderName>,
    /// The response headers that pages may read, limit headers included.
    pub expose: Vec<HeaderName>,
    /// Whether requests may carry credentials such as cookies.
    pub credentials: bool,
    /// The time for which browsers may keep the answer to a preflight. `None` means the default of browsers.
    pub max_age: Option<Duration>,
}

impl CorsSettings {
    /// Writes a line with the origins, the methods, and whether credentials are allowed.
    pub(crate) fn explain(&self, text: &mut String) -> fmt::Result {
        let origins = match &self.origins {
            Origins::Any => "any origin".to_owned(),
            Origins::Listed(listed) => {
                let listed: Vec<_> = listed.iter().map(ToString::to_string).collect();
                listed.join(", ")
            }
        };
        let methods: Vec<_> = self.methods.iter().map(Method::as_str).collect();
        write!(
            text,
            "cors:     pages of {origins} may send {}",
            methods.join(", ")
        )?;
        writeln!(
            text,
            "{}",
            if self.credentials {
                ", with credentials"
            } else {
                ""
            }
        )
    }
}

/// Origins of pages.
#[derive(Debug, Clone)]
pub enum Origins {
    /// All origins.
    Any,
    /// Origins that match a pattern of this list.
    Listed(Vec<OriginPattern>),
}

/// The methods that pages may use by default, if the route takes every method.
const SIMPLE: [Method; 3] = [Method::GET, Method::HEAD, Method::POST];

/// Makes the CORS rules of a route. `served` are the route's methods; `None` means every method. `headers` are the headers of answers that
/// pages may always read.
pub(crate) fn cors(
    check: &mut Check<'_>,
    written: &Cors,
    served: Option<&[Method]>,
    headers: Vec<HeaderName>,
) -> Option<CorsSettings> {
    let credentials = check.read_some(written.credentials.as_ref());
    let credentials = credentials.unwrap_or(false);
    let origins = origins(check, &written.origins, credentials);
    let allowed = match &written.methods {
        Some(written) => {
            let empty = "without `methods` pages may send every method of the route";
            methods(check, written, served, empty)
        }
        None => served.unwrap_or(&SIMPLE).to_vec(),
    };
    let mut expose = headers;
    for name in names(check, written.expose.as_deref(), credentials) {
        if !expose.contains(&name) {
            expose.push(name);
        }
    }
    let max_age = check.read_some(written.max_age.as_ref());
    Some(CorsSettings {
        origins: origins?,
        methods: allowed,
        headers: names(check, written.headers.as_deref(), credentials),
        expose,
        credentials,
        max_age: max_age.map(|MaxAge(age)| age),
    })
}

fn origins(
    check: &mut Check<'_>,
    written: &Spanned<Vec<Scalar<CorsOrigin>>>,
    credentials: bool,
) -> Option<Origins> {
    if written.value.is_empty() {
        let problem = Problem::new(written.place, "this list is empty");
        check.refuse(problem.note("without `cors` the upstream says which pages read its answers"));
    }
    let mut listed = Vec::new();
    let mut any = None;
    for scalar in &written.value {
        match check.read(scalar) {
            Some(CorsOrigin::Any) => any = Some(scalar.place),
            Some(CorsOrigin::Of(origin)) if listed.contains(&origin) => {
                twice(check, scalar.place, &origin);
            }
            Some(CorsOrigin::Of(origin)) => listed.push(origin),
            // `read` has refused the origin. The other origins are checked nevertheless.
            None => {}
        }
    }
    let Some(place) = any else {
        return Some(Origins::Listed(listed));
    };
    if written.value.len() > 1 {
        let problem = Problem::new(place, "`*` is every origin: remove the others");
        check.refuse(problem.note("leave out either `*` or the others"));
    }
    if credentials {
        let note = "list the origins whose pages you trust with your users' cookies";
        star(check, place, note);
    }
    Some(Origins::Any)
}

/// Reads a list of headers without repetition. `*` stands for all headers, but is refused if requests may carry credentials.
fn names(
    check: &mut Check<'_>,
    scalars: Option<&[Scalar<HeaderName>]>,
    credentials: bool,
) -> Vec<HeaderName> {
    let mut names = Vec::new();
    for scalar in scalars.unwrap_or_default() {
        let Some(name) = check.read(scalar) else {
            continue;
        };
        if credentials && name.as_str() == "*" {
            star(check, scalar.place, "name the headers");
        }
        if names.contains(&name) {
            twice(check, scalar.place, &name);
        }
        names.push(name);
    }
    names
}

fn star(check: &mut Check<'_>, place: Option<Place>, instead: &str) {
    let message = "browsers take no `*` together with `credentials: true`";
    check.refuse(Problem::new(place, message).note(instead));
}

fn twice(check: &mut Check<'_>, place: Option<Place>, what: &impl Display) {
    check.refuse(Problem::new(place, format!("`{what}` is here twice")));
}

/// Returns the headers that pages may always read: `Retry-After`, the request ID, and limit headers.
pub(crate) fn readable_headers(headers: RateLimitHeaders, has_request_id: bool) -> Vec<HeaderName> {
    let mut names = vec![RETRY_AFTER];
    if has_request_id {
        names.push(HeaderName::from_static("x-request-id"));
    }
    if headers.x_ratelimit.is_some() {
        names.extend([X_RATELIMIT_LIMIT, X_RATELIMIT_REMAINING, X_RATELIMIT_RESET]);
    }
    if headers.ietf {
        names.extend([RATELIMIT_POLICY, RATELIMIT]);
    }
    names
}
