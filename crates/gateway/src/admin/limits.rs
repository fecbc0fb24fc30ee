//! `/limits/{name}` shows budgets of a limit, `/limits/{name}/reset` resets them, and `/limits/{name}/keys` lists the keys.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode};
use tidegate_doors::Check;
use tidegate_net::path::decoded_part;
use tidegate_status::limit::LimitReport;
use tidegate_store::{Cursor, Key};
use tidegate_tower::problem;

use super::audit::{Audit, to_its_end};
use super::json;
use crate::budgets::limit::{KeyName, NoLimit};
use crate::request::problem::Problem;
use crate::request::values::query::{BadQuery, add_value, bad, once};
use crate::runtime::snapshot::Snapshot;

/// The path before a limit's name.
const LIMITS: &str = "/limits/";

/// A request for budgets of a limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Question {
    name: String,
    task: Task,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Show,
    Reset,
    Keys,
}

impl Question {
    /// Reads the question from a path. `None` for other paths.
    pub(super) fn of(path: &str) -> Option<Self> {
        let rest = path.strip_prefix(LIMITS)?;
        let (name, task) = match rest.split_once('/') {
            None => (rest, Task::Show),
            Some((name, "reset")) => (name, Task::Reset),
            Some((name, "keys")) => (name, Task::Keys),
            Some(_) => return None,
        };
        let name = decoded_part(name).filter(|name| !name.is_empty())?;
        Some(Self { name, task })
    }

    pub(super) async fn answer(
        self,
        method: &Method,
        query: &str,
        snapshot: Arc<Snapshot>,
        audit: Audit,
    ) -> Response<Bytes> {
        let allowed = match self.task {
            Task::Reset => "POST",
            Task::Show | Task::Keys => "GET, HEAD",
        };
        if !allowed.split(", ").any(|allowed| method == allowed) {
            return Problem::method_not_allowed(HeaderValue::from_static(allowed)).respond();
        }
        let Self { name, task } = self;
        let budgets = &snapshot.budgets;
        let answer = match task {
            Task::Show => match key_name(query) {
                Ok(key) => Ok(shown(budgets.show_limit(&name, &key).await)),
                Err(error) => Err(error),
            },
            Task::Keys => match cursor(query) {
                Ok(cursor) => Ok(shown(budgets.limit_keys(&name, cursor).await)),
                Err(error) => Err(error),
            },
            Task::Reset => match key_name(query) {
                Ok(key) => {
                    let resetting =
                        async move { shown(reset(&snapshot, &name, &key, &audit).await) };
                    Ok(to_its_end(resetting).await)
                }
                Err(error) => Err(error),
            },
        };
        answer.unwrap_or_else(|(error, why)| problem(StatusCode::BAD_REQUEST, error, &why))
    }
}

/// Resets budgets, and records the reset.
async fn reset(
    snapshot: &Snapshot,
    name: &str,
    key: &KeyName,
    audit: &Audit,
) -> Result<LimitReport, NoLimit> {
    // A wrong name or key ends this function here, before it records an event.
    let before = snapshot.budgets.show_limit(name, key).await?;
    let after = snapshot.budgets.reset_limit(name, key).await;
    match &after {
        Ok(after) => audit.limit_reset(&before, after),
        Err(error) => audit.limit_reset_failed(name, error),
    }
    after
}

/// Reads the key that a query names: `key` alone, or values of a request.
fn key_name(query: &str) -> Result<KeyName, BadQuery> {
    let (mut key, mut check) = (None, Check::default());
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if name == "key" {
            let read = Key::read(&value).ok_or_else(|| {
                bad("`key` has 32 hexadecimal digits, or twice 32 with a colon between")
            })?;
            once(key.replace(read).is_none())?;
        } else if !add_value(&mut check, &name, &value)? {
            return Err(bad("allowed here: key, or route, client and per"));
        }
    }
    let has_values = check.route.is_some() || check.client.is_some() || !check.per.is_empty();
    match key {
        Some(_) if has_values => Err(bad("`key` needs no other parameter")),
        Some(key) => Ok(KeyName::Hash(key)),
        None => Ok(KeyName::Values(check)),
    }
}

/// Reads the cursor of a query.
fn cursor(query: &str) -> Result<Cursor, BadQuery> {
    let mut cursor = None;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if name != "cursor" {
            return Err(bad("allowed here: cursor"));
        }
        let read = value
            .parse::<Cursor>()
            .map_err(|why| bad(&why.to_string()))?;
        once(cursor.replace(read).is_none())?;
    }
    Ok(cursor.unwrap_or_default())
}

fn shown(report: Result<LimitReport, NoLimit>) -> Response<Bytes> {
    let error = match report {
        Ok(report) => return json(&report),
        Err(error) => error,
    };
    let (status, name) = match &error {
        NoLimit::Unknown(_) => (StatusCode::NOT_FOUND, "unknown_limit"),
        NoLimit::Route { .. } => (StatusCode::NOT_FOUND, "unknown_route"),
        NoLimit::Values(why) => (StatusCode::BAD_REQUEST, why.error()),
        NoLimit::Store(_) => (StatusCode::SERVICE_UNAVAILABLE, "store_unavailable"),
    };
    problem(status, name, &error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_questions_about_a_limit_or_none() {
        let question = |path| Question::of(path).map(|it| (it.name, it.task));
        for (path, name, task) in [
            ("/limits/burst", "burst", Task::Show),
            ("/limits/burst/reset", "burst", Task::Reset),
            ("/limits/a%2Fb/keys", "a/b", Task::Keys),
        ] {
            assert_eq!(question(path), Some((name.to_owned(), task)), "{path}");
        }
        for path in [
            "/limits",
            "/limits/",
            "/limits//keys",
            "/limits/a/b",
            "/limits/%zz",
        ] {
            assert_eq!(question(path), None, "{path}");
        }
    }
}
