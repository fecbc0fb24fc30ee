//! `retries`: the requests that are sent again, and the bounds of their retries.

use std::time::Duration;

use crate::yaml::{Problem, Spanned};
use http::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_upstream::RetrySettings;

use crate::check::Check;
use crate::value::Scalar;
use crate::value::number::{Percent, bounded};

/// Retries at another server, for requests that a server may have received already: GET, HEAD and OPTIONS without a body, after no answer
/// or after 502, 503 or 504.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Retries {
    /// The most times that a request is sent again, 1 to 5.
    pub(crate) attempts: Scalar<Attempts>,
    /// The longest wait for an answer in each attempt except the last. Default: the route's `timeouts.upstream`.
    pub(crate) timeout: Option<Scalar<Duration>>,
    /// The most retries, in percent of the route's requests in the last ten seconds, plus one retry a second. Default: 20%.
    pub(crate) budget: Option<Scalar<Percent>>,
}

bounded!(
    /// The number of times that a request is sent again.
    Attempts(u32),
    1..=5,
    "a number of retries",
    "a whole number from 1 to 5"
);

/// The default of `budget`, in percent of the route's requests.
const RETRY_BUDGET: u32 = 20;

/// Reads the retries of a route. `whole` is the longest wait for an answer in all attempts together.
pub(crate) fn retry_settings(
    check: &mut Check<'_>,
    written: &Spanned<Retries>,
    whole: Duration,
    methods: Option<&[Method]>,
) -> Option<RetrySettings> {
    let is_repeated =
        |method: &Method| [Method::GET, Method::HEAD, Method::OPTIONS].contains(method);
    if methods.is_some_and(|methods| !methods.iter().any(is_repeated)) {
        let problem = Problem::new(written.place, "`retries` has no effect on this route");
        check.warn(
            problem.note("only GET, HEAD and OPTIONS are sent once more, and it has other methods"),
        );
    }
    let Retries {
        attempts,
        timeout,
        budget,
    } = &written.value;
    let place = timeout.as_ref().and_then(|scalar| scalar.place);
    let timeout = check.read_some(timeout.as_ref());
    if let Some(timeout) = timeout.filter(|timeout| *timeout >= whole) {
        let [own, all, fitting] = [timeout, whole, whole / 4].map(humantime::format_duration);
        let message = format!("`retries.timeout` ({own}) is not below `timeouts.upstream` ({all})");
        check.warn(Problem::new(place, message).note(format!(
            "a server that hangs leaves no time for a second attempt: write a shorter one, such as {fitting}"
        )));
    }
    let budget = check.read_some(budget.as_ref());
    let Attempts(attempts) = check.read(attempts)?;
    Some(RetrySettings {
        attempts,
        timeout,
        budget: budget.map_or(RETRY_BUDGET, |Percent(percent)| percent),
    })
}
