//! `/clients/{name}`: how one client stands, and `/clients/{name}/reset`: begin anew.

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Response, StatusCode};
use tidegate_tower::{UnknownClient, problem};

use crate::runtime::budgets::{Budgets, NoReport};
use tidegate_net::path;
use tidegate_net::text::cut;

/// What stands before a client's name.
const CLIENTS: &str = "/clients/";
/// How much of a client's name is logged, in bytes.
const MAX_NAME: usize = 128;

/// What is asked of a client, and whose.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Question<'a> {
    name: &'a str,
    resets: bool,
}

impl<'a> Question<'a> {
    /// The question that a path is, if it is one.
    pub(super) fn of(path: &'a str) -> Option<Self> {
        let rest = path.strip_prefix(CLIENTS)?;
        let (name, resets) = match rest.strip_suffix("/reset") {
            Some(name) => (name, true),
            None => (rest, false),
        };
        // A slash of the name itself is escaped.
        (!name.is_empty() && !name.contains('/')).then_some(Self { name, resets })
    }

    /// The methods by which it is asked.
    pub(super) const fn methods(&self) -> &'static [Method] {
        match self.resets {
            true => &[Method::POST],
            false => &[Method::GET, Method::HEAD],
        }
    }

    /// As `Allow` says them.
    pub(super) const fn allow(&self) -> &'static str {
        match self.resets {
            true => "POST",
            false => "GET, HEAD",
        }
    }

    pub(super) async fn answer(&self, budgets: &Budgets) -> Response<Bytes> {
        let Some(name) = decoded(self.name) else {
            return refusal(&NoReport::Client(UnknownClient::Form));
        };
        let report = match self.resets {
            true => budgets.reset(&name).await,
            false => budgets.show(&name).await,
        };
        let report = match report {
            Ok(report) => report,
            Err(error) => return refusal(&error),
        };
        if self.resets {
            let limits = report.limits.len();
            // As text, which is quoted: whoever asks chooses the name.
            let client = &*cut(&report.client, MAX_NAME).into_cow();
            tracing::info!(client, limits, "a client's budgets were reset");
        }
        // Numbers and strings always become JSON.
        let mut response = Response::new(serde_json::to_vec(&report).unwrap_or_default().into());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// 405, for a path that is served by other methods.
pub(super) fn method_not_allowed(allow: &'static str) -> Response<Bytes> {
    let mut refusal = problem(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "This path does not accept this method.",
    );
    let allow = HeaderValue::from_static(allow);
    refusal.headers_mut().insert(ALLOW, allow);
    refusal
}

fn refusal(why: &NoReport) -> Response<Bytes> {
    let (status, error) = match why {
        NoReport::Client(UnknownClient::Form | UnknownClient::Address) => {
            (StatusCode::BAD_REQUEST, "bad_client_name")
        }
        NoReport::Client(UnknownClient::ApiKey | UnknownClient::UserId) => {
            (StatusCode::NOT_FOUND, "unknown_client")
        }
        NoReport::Store(_) => (StatusCode::SERVICE_UNAVAILABLE, "store_unavailable"),
    };
    problem(status, error, &why.to_string())
}

/// A part of a path without its escapes; none if they are broken or no text.
fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [first, ..] = rest {
        let (byte, length) = match first {
            b'%' => (path::decode(rest)?, 3),
            byte => (*byte, 1),
        };
        bytes.push(byte);
        rest = &rest[length..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_questions_about_a_client_or_none() {
        let question = |path| Question::of(path).map(|question| (question.name, question.resets));
        assert_eq!(question("/clients/ip:::1"), Some(("ip:::1", false)));
        assert_eq!(
            question("/clients/api_key:a/reset"),
            Some(("api_key:a", true))
        );
        assert_eq!(
            question("/clients/user_id:a%2Freset"),
            Some(("user_id:a%2Freset", false))
        );
        for path in [
            "/clients",
            "/clients/",
            "/clients//reset",
            "/clients/a/b",
            "/clients/a/",
        ] {
            assert_eq!(question(path), None, "{path}");
        }
    }

    #[test]
    fn names_are_decoded_once() {
        for (part, name) in [
            ("api_key:acme", Some("api_key:acme")),
            ("user_id:a%2Fb%20%C3%bc", Some("user_id:a/b ü")),
            ("%2525", Some("%25")),
            ("a+b", Some("a+b")),
            ("%", None),
            ("a%2", None),
            ("%+1x", None),
            ("%ff", None),
        ] {
            assert_eq!(decoded(part).as_deref(), name, "{part}");
        }
    }
}
