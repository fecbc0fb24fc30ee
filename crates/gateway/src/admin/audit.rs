//! Records changes that operators make through the admin port, as lines of the log and as events of the status page.

use std::error::Error;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use tidegate_net::text::cut;
use tidegate_overrides::ChangeError;
use tidegate_overrides::api::Shown;
use tidegate_overrides::port::Changed;
use tidegate_status::client::Report;
use tidegate_status::limit::LimitReport;
use tidegate_tower::problem;
use tokio::sync::Semaphore;

use crate::budgets::NoReport;
use crate::budgets::limit::NoLimit;
use crate::status::LiveStatus;

/// The most bytes of a client's name in the log.
const MAX_NAME: usize = 128;
/// The most bytes of a client's budgets in the log.
const MAX_BUDGETS: usize = 1_024;

/// The author of a change, and the status page for its event.
#[derive(Debug)]
pub(super) struct Audit {
    /// The author's name.
    pub(super) by: String,
    pub(super) from: SocketAddr,
    pub(super) status: Arc<LiveStatus>,
}

/// Permits for changes that run at the same time. A further change waits, and is dropped if its client leaves meanwhile.
static CHANGES: Semaphore = Semaphore::const_new(16);

/// Runs a change and its audit to their end in a task of their own. Otherwise a change could be made without a line in the log, if its
/// client hangs up or its connection ends.
pub(super) async fn to_its_end(
    change: impl Future<Output = Response<Bytes>> + Send + 'static,
) -> Response<Bytes> {
    // The semaphore is never closed.
    let permit = CHANGES.acquire().await;
    let done = tokio::spawn(async move {
        let answer = change.await;
        drop(permit);
        answer
    });
    let done = done.await;
    done.unwrap_or_else(|_| {
        let detail = "The gateway is stopping, or the change failed. It may have been made.";
        problem(StatusCode::SERVICE_UNAVAILABLE, "stopping", detail)
    })
}

impl Audit {
    /// Records that a client's budgets were reset.
    pub(super) fn reset(&self, before: &Report, after: &Report) {
        let by = &*self.by;
        // A string rather than `Display`, so that the log quotes it: the client of the admin port chooses the name.
        let client = &*cut(&after.client, MAX_NAME).into_cow();
        let (before, after) = (budgets(before), budgets(after));
        let before = &*cut(&before, MAX_BUDGETS).into_cow();
        let after = &*cut(&after, MAX_BUDGETS).into_cow();
        tracing::info!(
            target: "audit",
            action = "reset",
            by,
            from = %self.from,
            client,
            before,
            after,
            "a client's budgets were reset"
        );
        let text = format!("The budgets of {client} were reset by {by}.");
        self.status.happened("reset", text);
    }

    /// Records that budgets of a limit were reset.
    pub(super) fn limit_reset(&self, before: &LimitReport, after: &LimitReport) {
        let (by, limit) = (&*self.by, &*after.limit);
        let units = |report: &LimitReport| {
            let budgets = report.budgets.iter();
            let texts = budgets.map(|it| format!("{} {}/{}", it.key, it.remaining, it.limit));
            let text = texts.collect::<Vec<_>>().join(", ");
            cut(&text, MAX_BUDGETS).into_cow().into_owned()
        };
        let (before, after) = (units(before), units(after));
        tracing::info!(
            target: "audit",
            action = "reset",
            by,
            from = %self.from,
            limit,
            before = &*before,
            after = &*after,
            "budgets of a limit were reset"
        );
        let text = format!("A budget of the limit {limit} was reset by {by}.");
        self.status.happened("reset", text);
    }

    /// Logs a failed reset of a limit. Some budgets may have been reset.
    pub(super) fn limit_reset_failed(&self, limit: &str, error: &NoLimit) {
        let by = &*self.by;
        let limit = &*cut(limit, MAX_NAME).into_cow();
        tracing::warn!(
            target: "audit",
            action = "reset",
            by,
            from = %self.from,
            limit,
            %error,
            "the reset of a limit's budgets failed; some may be reset"
        );
    }

    /// Logs overrides that were set or cleared. Records no events for the status page, because each gateway records these events when it
    /// reads the overrides.
    pub(super) async fn overridden(&self, changed: &[Changed]) {
        for (number, change) in changed.iter().enumerate() {
            // Yields, so that other requests are served while a long list is logged.
            if number % 100 == 99 {
                tokio::task::yield_now().await;
            }
            let name = change.subject.to_string();
            let client = &*cut(&name, MAX_NAME).into_cow();
            let before = change.before.as_ref();
            let before = written(before.map(|it| Shown::previous(&change.subject, it)));
            let after = written(change.after.as_ref().map(Shown::of));
            tracing::info!(
                target: "audit",
                action = "override",
                by = &*self.by,
                from = %self.from,
                client,
                before = &*before,
                after = &*after,
                reason = &*change.reason,
                "an override was changed"
            );
        }
    }

    /// Logs a failed change of overrides. A part of the change may have been made.
    pub(super) fn override_failed(&self, whom: &str, error: &ChangeError) {
        let text = "the change of an override failed; it may have been made";
        self.failed("override", whom, error, text);
    }

    /// Logs a failed reset. Some budgets may have been reset.
    pub(super) fn reset_failed(&self, whom: &str, error: &NoReport) {
        let text = "the reset of a client's budgets failed; some may be reset";
        self.failed("reset", whom, error, text);
    }

    fn failed(&self, action: &str, whom: &str, error: &dyn Error, text: &str) {
        let by = &*self.by;
        let client = &*cut(whom, MAX_NAME).into_cow();
        tracing::warn!(target: "audit", action, by, from = %self.from, client, %error, "{text}");
    }
}

/// Formats an override as text, such as `plan gold until 2026-11-24T08:30:00Z`; without an override, `none`.
fn written(it: Option<Shown>) -> String {
    it.map_or_else(
        || "none".to_owned(),
        |it| format!("{} until {}", it.does(), it.until),
    )
}

/// Formats the remaining and the total units of each budget, such as `ride-burst 3/20, daily on rides 7/50`.
fn budgets(report: &Report) -> String {
    let mut text = String::new();
    for limit in &report.limits {
        let comma = if text.is_empty() { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(text, "{comma}{}", limit.name);
        if let Some(route) = &limit.route {
            let _ = write!(text, " on {route}");
        }
        let _ = write!(text, " {}/{}", limit.remaining, limit.limit);
    }
    text
}
