//! `notify`: the thresholds at which a budget causes an event, and the receiver of the events.

use std::sync::Arc;

use crate::yaml::{Place, Problem, Spanned};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_core::{Micros, Quota};
use tidegate_store::Mode;
use tidegate_tower::{Notify, Per, Webhook};

use crate::check::Check;
use crate::limits::WrittenLimit;
use crate::secret::filled_in;
use crate::value::net::http_url;
use crate::value::number::Percent;
use crate::value::{Fault, Scalar, Value};

/// The most thresholds of a limit.
const MAX_THRESHOLDS: usize = 8;
/// The shortest period of a limit with events, in us.
const LEAST_PERIOD: Micros = 60_000_000;

/// The thresholds at which a budget causes an event, and the receiver of the events.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Notify")]
pub(crate) struct WrittenNotify {
    /// The used shares of a budget that cause an event, such as `[80%, 100%]`; 1 to 8 shares.
    pub(crate) at: Vec<Scalar<Percent>>,
    /// The URL that gets each event by POST. Default: events are only logged.
    pub(crate) webhook: Option<Scalar<WebhookUrl>>,
    /// The key of the signatures: `whsec_` and 24 to 64 bytes in base64. Needed with `webhook`.
    pub(crate) secret: Option<Scalar<WebhookSecret>>,
}

/// The URL of a webhook. No message shows it, because it may hold a secret.
pub(crate) struct WebhookUrl(Uri);

impl Value for WebhookUrl {
    const NAME: &'static str = "WebhookUrl";
    const WHAT: &'static str = "the URL of a webhook";
    const ALLOWED: &'static str = "https://host[:port]/path, or the same with http://";
    const SHOWN: bool = false;

    fn read(text: &str) -> Result<Self, Fault> {
        if !text.contains("://") {
            return Err(Fault::Because(
                "the URL of a webhook begins with https:// or http://",
            ));
        }
        http_url(text, "the URL of a webhook holds no user and password").map(Self)
    }
}

/// The key of a webhook's signatures.
pub(crate) struct WebhookSecret(Box<[u8]>);

impl Value for WebhookSecret {
    const NAME: &'static str = "WebhookSecret";
    const WHAT: &'static str = "the secret of a webhook";
    const ALLOWED: &'static str = "whsec_ and 24 to 64 random bytes in base64, such as the output of: echo whsec_$(openssl rand -base64 32)";
    const SHOWN: bool = false;

    fn read(text: &str) -> Result<Self, Fault> {
        filled_in(text)?;
        let key = text.strip_prefix("whsec_").ok_or(Fault::Form)?;
        let key = STANDARD.decode(key).map_err(|_| Fault::Form)?;
        match key.len() {
            24..=64 => Ok(Self(key.into())),
            _ => Err(Fault::Form),
        }
    }
}

/// Reads `notify` of a limit that is counted per these parts.
pub(super) fn notify(
    check: &mut Check<'_>,
    limit: &WrittenLimit,
    mode: Mode,
    quota: Option<&Quota>,
    per: &[Per],
) -> Option<Arc<Notify>> {
    let written = limit.notify.as_ref()?;
    let at = thresholds(check, written);
    let webhook = webhook(check, written);
    fits(check, limit, (mode, quota), written.place);
    names_budgets(check, per, written.place);
    (!at.is_empty()).then(|| Arc::new(Notify { at, webhook }))
}

/// Reads the thresholds, in percent, in ascending order.
fn thresholds(check: &mut Check<'_>, written: &Spanned<WrittenNotify>) -> Box<[u8]> {
    let written_at = &written.value.at;
    if written_at.is_empty() || written_at.len() > MAX_THRESHOLDS {
        let message = format!("1 to {MAX_THRESHOLDS} shares are allowed under `at`");
        check.refuse(Problem::new(written.place, message));
    }
    let mut at = Vec::new();
    for scalar in written_at {
        let Some(Percent(percent)) = check.read(scalar) else {
            continue;
        };
        let percent = u8::try_from(percent).unwrap_or(100);
        if at.contains(&percent) {
            let problem = Problem::new(scalar.place, format!("`{}` is here twice", scalar.raw));
            check.refuse(problem);
        }
        at.push(percent);
    }
    at.sort_unstable();
    at.into()
}

/// Reads the receiver. Refuses a URL without a secret, and a secret without a URL.
fn webhook(check: &mut Check<'_>, written: &Spanned<WrittenNotify>) -> Option<Arc<Webhook>> {
    let url = &written.value.webhook;
    let key = &written.value.secret;
    let (has, lacks) = match (url, key) {
        (None, None) => return None,
        (Some(url), Some(key)) => {
            let (url, key) = (check.read(url), check.read(key));
            let (WebhookUrl(url), WebhookSecret(key)) = (url?, key?);
            return Some(Arc::new(Webhook { url, key }));
        }
        (Some(_), None) => ("webhook", "secret"),
        (None, Some(_)) => ("secret", "webhook"),
    };
    let message = format!("there is a `{has}` without a `{lacks}`");
    check.refuse(
        Problem::new(written.place, message)
            .note("the receiver verifies each event by its signature, so both are needed"),
    );
    None
}

/// Refuses `notify` at a limit whose events would be wrong, or would come all the time.
fn fits(
    check: &mut Check<'_>,
    limit: &WrittenLimit,
    (mode, quota): (Mode, Option<&Quota>),
    place: Option<Place>,
) {
    let mut refuse = |place, message: String, note: &str| {
        check.refuse(Problem::new(place, message).note(note));
    };
    if let Some(scalar) = &limit.block {
        refuse(
            scalar.place,
            "a limit with `notify` cannot have `block`".into(),
            "a block hides how much of a budget is used",
        );
    }
    if mode == Mode::Leased {
        refuse(
            place,
            "a limit with `notify` cannot be leased".into(),
            "units that other gateways have in advance would count as used: write `mode: exact`",
        );
    }
    let Some(quota) = quota else {
        return;
    };
    if !quota.has_reset() {
        refuse(
            place,
            format!("a {} limit cannot have `notify`", quota.algorithm()),
            "its units are free again when requests end",
        );
    } else if quota.period() < LEAST_PERIOD {
        refuse(
            place,
            "this limit would cause events every few seconds".into(),
            "`notify` needs a period of a minute or more: a window of 1m, or a bucket that fills in 1m",
        );
    }
}

/// Warns of events that do not name the owner of the budget, and of budgets that clients can invent.
fn names_budgets(check: &mut Check<'_>, per: &[Per], place: Option<Place>) {
    if !per.is_empty() && !per.contains(&Per::Client) {
        let problem = Problem::new(place, "the events of this limit name no client");
        check.warn(problem.note("only a limit per `client` has events with the budget's owner"));
    }
    let is_chosen = |per: &&Per| {
        matches!(
            per,
            Per::Header(_) | Per::Cookie(_) | Per::Path(_) | Per::Query(_)
        )
    };
    if let Some(part) = per.iter().find(is_chosen) {
        let message = format!("clients choose the `{part}` of their requests");
        check.warn(Problem::new(place, message).note(
            "one client can cause many events: count the limit per a verified part, such as `client`",
        ));
    }
}
