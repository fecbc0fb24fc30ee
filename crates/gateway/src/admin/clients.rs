//! `/clients/{name}` shows the budgets of a client, and `/clients/{name}/reset` resets them.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode};
use tidegate_identity::UnknownClient;
use tidegate_status::client::Report;
use tidegate_tower::problem;

use super::audit::{Audit, to_its_end};
use super::json;
use crate::budgets::{Budgets, NoReport};
use crate::request::problem::Problem;
use crate::runtime::snapshot::Snapshot;
use tidegate_net::path::decoded_part;

/// The path before a client's name.
const CLIENTS: &str = "/clients/";

/// A request for a client's budgets: the client's name, and whether to reset the budgets.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Question {
    name: String,
    resets: bool,
}

impl Question {
    /// Reads the question from a path. `None` for other paths.
    pub(super) fn of(path: &str) -> Option<Self> {
        let rest = path.strip_prefix(CLIENTS)?;
        let (name, resets) = match rest.strip_suffix("/reset") {
            Some(name) => (name, true),
            None => (rest, false),
        };
        // An unescaped slash is not part of a name, so such a path is refused.
        (!name.is_empty() && !name.contains('/')).then(|| Self {
            name: name.to_owned(),
            resets,
        })
    }

    pub(super) async fn answer(
        self,
        method: &Method,
        snapshot: Arc<Snapshot>,
        audit: Audit,
    ) -> Response<Bytes> {
        let allowed = match self.resets {
            true => "POST",
            false => "GET, HEAD",
        };
        if !allowed.split(", ").any(|allowed| method == allowed) {
            return Problem::method_not_allowed(HeaderValue::from_static(allowed)).respond();
        }
        let Some(name) = decoded_part(&self.name) else {
            return refusal(&NoReport::Client(UnknownClient::Form));
        };
        if !self.resets {
            return shown(snapshot.budgets.show(&name).await);
        }
        to_its_end(async move { shown(reset(&snapshot.budgets, &name, &audit).await) }).await
    }
}

fn shown(report: Result<Report, NoReport>) -> Response<Bytes> {
    report.map_or_else(|error| refusal(&error), |report| json(&report))
}

/// Resets a client's budgets, and records the reset.
async fn reset(budgets: &Budgets, name: &str, audit: &Audit) -> Result<Report, NoReport> {
    // For an unknown client this call fails, so that no event is recorded.
    let before = budgets.show(name).await?;
    let after = budgets.reset(name).await;
    match &after {
        Ok(after) => audit.reset(&before, after),
        Err(error) => audit.reset_failed(&before.client, error),
    }
    after
}

fn refusal(why: &NoReport) -> Response<Bytes> {
    let (status, error) = match why {
        NoReport::Client(UnknownClient::Form | UnknownClient::Address) => {
            (StatusCode::BAD_REQUEST, "bad_client_name")
        }
        NoReport::Client(
            UnknownClient::ApiKey | UnknownClient::UserId | UnknownClient::Certificate,
        ) => (StatusCode::NOT_FOUND, "unknown_client"),
        NoReport::Store(_) => (StatusCode::SERVICE_UNAVAILABLE, "store_unavailable"),
    };
    problem(status, error, &why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_questions_about_a_client_or_none() {
        let question = |path| Question::of(path).map(|it| (it.name, it.resets));
        for (path, name, resets) in [
            ("/clients/ip:::1", "ip:::1", false),
            ("/clients/api_key:a/reset", "api_key:a", true),
            ("/clients/user_id:a%2Freset", "user_id:a%2Freset", false),
        ] {
            assert_eq!(question(path), Some((name.to_owned(), resets)), "{path}");
        }
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
}
