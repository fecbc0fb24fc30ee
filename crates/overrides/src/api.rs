//! Overrides as JSON: requests and answers of the admin port, and the output of `tidegate overrides dump`.

mod table;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tidegate_core::{Micros, micros};
use tidegate_identity::ClientPlan;
use tidegate_net::text::cut;
use tidegate_tower::{OverrideAction, Overrides, SetNumbers};

use crate::change::{Ends, Expected, Intent, Previous, Wish};
use crate::figures::Kept;
use crate::name::{MAX_NAME, Subject};
use crate::setting::{InvalidSetting, Override, Setting};
pub use table::table;

/// The word for an override without an end.
const NEVER: &str = "never";

/// The longest duration of an override, whether it is set by duration or by end. A longer override must be set with `never`.
const LONGEST: Duration = Duration::from_secs(3_650 * 24 * 60 * 60);

/// The action of an override.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// The client gets the plan that `plan` names.
    Plan,
    /// The client or the limit gets the numbers in `limits`.
    Set,
    /// No limit applies to the client.
    Exempt,
    /// The client has no access: its requests are answered with 403.
    Block,
    /// An action that this version of the program cannot read.
    #[default]
    Unknown,
}

/// An override as answers show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The name of the client, network or limit that the override applies to.
    pub name: String,
    /// The action of the override.
    pub action: Verb,
    /// The plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The numbers of limits, by the names of the limits, as they are written in the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<BTreeMap<String, String>>,
    /// The end of the override, such as `2026-11-24T08:30:00Z`, or `never`.
    pub until: String,
    /// The reason.
    #[serde(default)]
    pub reason: String,
    /// The author of the override: the name of an admin token, or `no token` if the admin port needs none.
    #[serde(default)]
    pub by: String,
    /// The time at which the override was set.
    pub set: String,
    /// The version of the override.
    pub version: u64,
    /// A warning that perhaps no client has this name, with the reason. Present only in the answer to a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The place where the override is kept. Present only in an answer about a single override.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
}

/// A page of the overrides, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownList {
    /// The overrides.
    pub overrides: Vec<Shown>,
    /// The number of overrides in force.
    pub count: usize,
    /// The place where the overrides are kept: `redis`, `file` or `process`.
    pub kept: Kept,
    /// The cursor of the next page: the value for `after`. `None` on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A requested override. It accepts the other fields of [`Shown`] and ignores them, so that a shown override can be set again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// The name of the client, network or limit that the override applies to. Required in a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The action. Optional with `plan` or `limits`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Verb>,
    /// The plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The numbers of limits, by the names of the limits, for example `capacity: 500, refill: 100/s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<BTreeMap<String, String>>,
    /// The duration of the override, such as `24h`, or `never` for no end.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub lasting: Option<String>,
    /// The end of the override, such as `2026-11-24T08:30:00Z`, or `never`. Used in place of `for`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing)]
    by: serde::de::IgnoredAny,
    #[serde(default, skip_serializing)]
    set: serde::de::IgnoredAny,
    #[serde(default, skip_serializing)]
    version: serde::de::IgnoredAny,
    #[serde(default, skip_serializing)]
    note: serde::de::IgnoredAny,
    #[serde(default, skip_serializing)]
    kept: serde::de::IgnoredAny,
}

/// Many requested overrides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WantedList {
    /// The overrides.
    pub overrides: Vec<Wanted>,
}

/// The result of a request for many overrides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loaded {
    /// The number of requested overrides that were set.
    pub set: usize,
    /// The number of overrides whose end had already passed.
    #[serde(default)]
    pub over: usize,
    /// The number of all other overrides that were not set.
    pub refused: usize,
    /// The names of the first refused overrides, with the reasons.
    pub reasons: Vec<String>,
}

/// The reason why an override cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWish {
    /// A text is not valid.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    /// The action is missing, or its plan or limits are missing, or the fields contradict each other.
    #[error(
        "say what the override does: \"plan\": \"gold\", \"limits\": {{\"burst\": \"capacity: 500, refill: 100/s\"}}, \"action\": \"exempt\" or \"action\": \"block\""
    )]
    Action,
    /// An override of a limit has another action than numbers for this limit, or the numbers are `unlimited`.
    #[error(
        "an override of a limit gives it other numbers: \"limits\": {{\"burst\": \"capacity: 500, refill: 100/s\"}} for limit:burst; it cannot be unlimited"
    )]
    OfLimit,
    /// The configuration does not define the limit, or its numbers cannot be used.
    #[error("{0}")]
    Numbers(String),
    /// No plan of the configuration has this name.
    #[error("no plan of the configuration has this name; the plans are: {0}")]
    UnknownPlan(String),
    /// There is neither `for` nor `until`, or there are both.
    #[error("say for how long: \"for\": \"24h\", or \"for\": \"never\"")]
    Time,
    /// The time cannot be read.
    #[error(
        "a time is written as 30m, 24h, 7d or never, and is at most 10 years; an end is written as 2026-11-24T08:30:00Z, and is at most 10 years ahead"
    )]
    TimeForm,
}

impl Shown {
    /// Returns an override as answers show it.
    pub fn of(it: &Override) -> Self {
        let (mut plan, mut limits) = (None, None);
        let action = match &it.setting.action {
            OverrideAction::Plan(name) => {
                plan = Some(name.to_string());
                Verb::Plan
            }
            OverrideAction::Set(numbers) => {
                limits = Some(numbers.texts().clone());
                Verb::Set
            }
            OverrideAction::Exempt => Verb::Exempt,
            OverrideAction::Block => Verb::Block,
        };
        Self {
            action,
            plan,
            limits,
            reason: it.setting.reason.to_string(),
            by: it.setting.by.to_string(),
            ..Self::unknown(&it.subject, it.version, it.ends)
        }
    }

    /// Returns the override that was in force for `subject` before a change.
    pub fn previous(subject: &Subject, it: &Previous) -> Self {
        match it {
            Previous::Override(it) => Self::of(it),
            Previous::Unreadable { version, ends } => Self::unknown(subject, *version, *ends),
        }
    }

    fn unknown(subject: &Subject, version: u64, ends: Option<Micros>) -> Self {
        Self {
            name: subject.to_string(),
            until: ends.map_or_else(|| NEVER.to_owned(), written),
            set: written(version),
            version,
            ..Self::default()
        }
    }

    /// Returns the effect of the override on requests, or `None` if the action is unknown or lacks its plan or limits.
    pub fn effect(&self) -> Option<OverrideAction> {
        Some(match self.action {
            Verb::Plan => OverrideAction::Plan(self.plan.as_deref()?.into()),
            Verb::Set => set(self.limits.as_ref()?),
            Verb::Exempt => OverrideAction::Exempt,
            Verb::Block => OverrideAction::Block,
            Verb::Unknown => return None,
        })
    }

    /// Returns the action as people type it: `plan gold`, `set burst 'capacity: 500, refill: 100/s'`, `exempt`, `block`.
    pub fn does(&self) -> String {
        self.effect()
            .map_or_else(|| "unknown".to_owned(), |it| it.to_string())
    }
}

impl ShownList {
    /// Makes a page from sorted overrides. `count` is the number of all overrides. `has_more` is true if more pages follow.
    pub fn of(part: &[Override], has_more: bool, count: usize, kept: Kept) -> Self {
        let last = part.last().filter(|_| has_more);
        Self {
            overrides: part.iter().map(Shown::of).collect(),
            count,
            kept,
            next: last.map(|it| it.subject.to_string()),
        }
    }
}

impl Loaded {
    /// Counts an override that was not set. Adds the reason if there are fewer than `most` reasons.
    pub(crate) fn refuse(&mut self, name: &str, why: &str, most: usize) {
        self.refused += 1;
        if self.reasons.len() < most {
            let name = cut(name, MAX_NAME);
            self.reasons.push(format!("{name}: {why}"));
        }
    }
}

impl Wanted {
    /// Makes a requested override without a name.
    pub fn new(
        action: Option<Verb>,
        plan: Option<String>,
        lasting: Option<String>,
        reason: String,
    ) -> Self {
        Self {
            action,
            plan,
            lasting,
            reason,
            ..Self::default()
        }
    }

    /// Returns the wish for `subject`. `by` is the operator's name, and `defined` has the plans and limits of the configuration.
    ///
    /// # Errors
    ///
    /// A field is missing or invalid.
    pub fn wish(
        &self,
        subject: Subject,
        expected: Expected,
        by: &str,
        defined: &Overrides,
    ) -> Result<Wish, InvalidWish> {
        let action = match (self.action, &self.plan, &self.limits) {
            (None | Some(Verb::Plan), Some(plan), None) => {
                let plans = &defined.plans;
                if plans.called(plan).is_none() {
                    let names: Vec<_> = plans.iter().take(100).map(ClientPlan::name).collect();
                    return Err(InvalidWish::UnknownPlan(names.join(", ")));
                }
                OverrideAction::Plan(plan.as_str().into())
            }
            (None | Some(Verb::Set), None, Some(limits)) => set(limits),
            (Some(Verb::Exempt), None, None) => OverrideAction::Exempt,
            (Some(Verb::Block), None, None) => OverrideAction::Block,
            _ => return Err(InvalidWish::Action),
        };
        let (ends, setting) = (self.ends()?, Setting::new(action, &self.reason, by)?);
        let mut makes_unlimited = false;
        for (limit, text) in self.limits.iter().flatten() {
            let read = defined.numbers.read(limit, text);
            makes_unlimited |= read.map_err(InvalidWish::Numbers)?.is_none();
        }
        if let Subject::Limit(name) = &subject {
            let mut named = self.limits.iter().flat_map(BTreeMap::keys);
            let is_own = named.next().is_some_and(|it| **it == **name) && named.next().is_none();
            if makes_unlimited || !is_own {
                return Err(InvalidWish::OfLimit);
            }
        }
        Ok(Wish {
            subject,
            expected,
            ends,
            intent: Intent::Set(setting),
        })
    }

    fn ends(&self) -> Result<Ends, InvalidWish> {
        match (self.lasting.as_deref(), self.until.as_deref()) {
            (Some(NEVER), None) | (None, Some(NEVER)) => Ok(Ends::Never),
            (Some(time), None) => match humantime::parse_duration(time) {
                Ok(time) if !time.is_zero() && time <= LONGEST => Ok(Ends::After(time)),
                _ => Err(InvalidWish::TimeForm),
            },
            (None, Some(end)) => humantime::parse_rfc3339(end)
                .ok()
                .filter(|end| *end <= SystemTime::now() + LONGEST)
                .and_then(|end| end.duration_since(UNIX_EPOCH).ok())
                .map(micros)
                // An end of 0, the epoch, is refused, because it would mean no end.
                .filter(|end| *end > 0)
                .map(Ends::At)
                .ok_or(InvalidWish::TimeForm),
            _ => Err(InvalidWish::Time),
        }
    }
}

fn set(limits: &BTreeMap<String, String>) -> OverrideAction {
    OverrideAction::Set(Arc::new(SetNumbers::new(limits.clone())))
}

/// Formats a time in UTC.
fn written(time: Micros) -> String {
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(time));
    // No gateway sets a time after the year 9999.
    let last = Duration::from_secs(253_402_300_799);
    let Some(time) = time.filter(|time| *time <= UNIX_EPOCH + last) else {
        return NEVER.to_owned();
    };
    match humantime::format_rfc3339_micros(time).to_string() {
        text if text.ends_with(".000000Z") => humantime::format_rfc3339_seconds(time).to_string(),
        text => text,
    }
}

#[cfg(test)]
mod tests;
