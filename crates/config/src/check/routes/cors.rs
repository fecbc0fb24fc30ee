//! Which pages of other origins may read a route's answers: nothing that browsers would not take, or that means everybody
//! by mistake.

use std::fmt::Display;

use http::header::RETRY_AFTER;
use http::{HeaderName, Method};
use tidegate_tower::{
    RATELIMIT, RATELIMIT_POLICY, RateLimitHeaders, X_RATELIMIT_LIMIT, X_RATELIMIT_REMAINING,
    X_RATELIMIT_RESET,
};

use crate::check::Check;
use crate::file;
use crate::plan::{CorsPlan, Origins};
use crate::value::{CorsOrigin, MaxAge, Scalar};
use tidegate_yaml::Spanned;
use tidegate_yaml::{Place, Problem};

/// What pages may send to a route that takes any method, unless it says otherwise.
const SIMPLE: [Method; 3] = [Method::GET, Method::HEAD, Method::POST];

impl Check<'_> {
    /// What browsers are told of a route that serves `methods` and has these `headers` that tell of limits.
    pub(super) fn cors(
        &mut self,
        written: &file::Cors,
        methods: Option<&[Method]>,
        headers: RateLimitHeaders,
    ) -> Option<CorsPlan> {
        let credentials = self.read_some(written.credentials.as_ref());
        let credentials = credentials.unwrap_or(false);
        let origins = self.origins(&written.origins, credentials);
        let allowed = match &written.methods {
            Some(written) => self.sent_methods(written, methods),
            None => methods.unwrap_or(&SIMPLE).to_vec(),
        };
        let mut expose = told(headers);
        for name in self.names(written.expose.as_deref(), credentials) {
            if !expose.contains(&name) {
                expose.push(name);
            }
        }
        let max_age = self.read_some(written.max_age.as_ref());
        Some(CorsPlan {
            origins: origins?,
            methods: allowed,
            headers: self.names(written.headers.as_deref(), credentials),
            expose,
            credentials,
            max_age: max_age.map(|MaxAge(age)| age),
        })
    }

    fn origins(
        &mut self,
        written: &Spanned<Vec<Scalar<CorsOrigin>>>,
        credentials: bool,
    ) -> Option<Origins> {
        if written.value.is_empty() {
            let problem = Problem::new(written.place, "this list is empty");
            self.refuse(
                problem.note("without `cors` the upstream says which pages read its answers"),
            );
        }
        let mut listed = Vec::new();
        let mut any = None;
        for scalar in &written.value {
            match self.read(scalar) {
                Some(CorsOrigin::Any) => any = Some(scalar.place),
                Some(CorsOrigin::Of(origin)) if listed.contains(&origin) => {
                    self.twice(scalar.place, &origin);
                }
                Some(CorsOrigin::Of(origin)) => listed.push(origin),
                // It has been refused; the others are looked at all the same.
                None => {}
            }
        }
        let Some(place) = any else {
            return Some(Origins::Listed(listed));
        };
        if written.value.len() > 1 {
            let problem = Problem::new(place, "`*` is every origin: remove the others");
            self.refuse(problem.note("leave out either `*` or the others"));
        }
        if credentials {
            let note = "list the origins whose pages you trust with your users' cookies";
            self.star(place, note);
        }
        Some(Origins::Any)
    }

    /// Methods that pages may send, all of which the route must serve.
    fn sent_methods(
        &mut self,
        written: &Spanned<Vec<Scalar<Method>>>,
        served: Option<&[Method]>,
    ) -> Vec<Method> {
        if written.value.is_empty() {
            let problem = Problem::new(written.place, "this list is empty");
            self.refuse(problem.note("without `methods` pages may send every method of the route"));
        }
        self.methods(&written.value, served)
    }

    /// Headers, each once; `*` is any, but not of requests that may carry credentials.
    fn names(
        &mut self,
        scalars: Option<&[Scalar<HeaderName>]>,
        credentials: bool,
    ) -> Vec<HeaderName> {
        let mut names = Vec::new();
        for scalar in scalars.unwrap_or_default() {
            let Some(name) = self.read(scalar) else {
                continue;
            };
            if credentials && name.as_str() == "*" {
                self.star(scalar.place, "name the headers");
            }
            if names.contains(&name) {
                self.twice(scalar.place, &name);
            }
            names.push(name);
        }
        names
    }

    fn star(&mut self, place: Option<Place>, instead: &str) {
        let message = "browsers take no `*` together with `credentials: true`";
        self.refuse(Problem::new(place, message).note(instead));
    }

    fn twice(&mut self, place: Option<Place>, what: &impl Display) {
        self.refuse(Problem::new(place, format!("`{what}` is here twice")));
    }
}

/// What tells of limits, and when to come back: of no use to a page that cannot read it.
fn told(headers: RateLimitHeaders) -> Vec<HeaderName> {
    let mut told = vec![RETRY_AFTER];
    if headers.x_ratelimit.is_some() {
        told.extend([X_RATELIMIT_LIMIT, X_RATELIMIT_REMAINING, X_RATELIMIT_RESET]);
    }
    if headers.ietf {
        told.extend([RATELIMIT_POLICY, RATELIMIT]);
    }
    told
}
