//! The content of an override, and its stored form.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tidegate_core::Micros;
use tidegate_tower::{OverrideAction, SetNumbers};

use crate::name::Subject;

/// The longest reason, in bytes.
pub const MAX_REASON: usize = 512;
/// The longest name of a plan, in bytes.
pub const MAX_PLAN: usize = 128;
/// The most limits whose numbers an override sets.
pub const MAX_SET_LIMITS: usize = 8;
/// The largest total size of the names and numbers of all limits of an override, in bytes.
const MAX_SET: usize = 1_024;
/// The longest name of an author, in bytes. A longer name is cut.
const MAX_BY: usize = 64;

/// The form in which an action is stored.
#[derive(Serialize, Deserialize)]
#[serde(remote = "OverrideAction", rename_all = "snake_case")]
enum StoredAction {
    Plan(#[serde(serialize_with = "str::serialize", deserialize_with = "shared")] Arc<str>),
    Set(#[serde(serialize_with = "texts", deserialize_with = "numbers")] Arc<SetNumbers>),
    Exempt,
    Block,
}

fn shared<'de, D: Deserializer<'de>>(text: D) -> Result<Arc<str>, D::Error> {
    Box::deserialize(text).map(Arc::from)
}

fn texts<S: Serializer>(numbers: &SetNumbers, to: S) -> Result<S::Ok, S::Error> {
    numbers.texts().serialize(to)
}

fn numbers<'de, D: Deserializer<'de>>(texts: D) -> Result<Arc<SetNumbers>, D::Error> {
    BTreeMap::deserialize(texts).map(|texts| Arc::new(SetNumbers::new(texts)))
}

/// The content of an override, and its author.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The action.
    #[serde(with = "StoredAction")]
    pub action: OverrideAction,
    /// The reason.
    pub reason: Box<str>,
    /// The author: the name of an admin token, or `no token` if the admin port needs none.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub by: Box<str>,
}

/// The reason why a setting is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSetting {
    /// The reason is longer than [`MAX_REASON`].
    #[error("the reason is longer than 512 bytes")]
    Reason,
    /// The plan's name is empty or longer than [`MAX_PLAN`].
    #[error("the name of a plan has 1 to 128 bytes")]
    Plan,
    /// There are numbers for no limit or for more than [`MAX_SET_LIMITS`] limits, or the texts are too long.
    #[error(
        "an override gives numbers to 1 to 8 limits, and their names and numbers have at most 1024 bytes"
    )]
    Numbers,
    /// A text has a control character.
    #[error("the reason, the plan or the numbers have a control character, such as a line break")]
    Control,
}

impl Setting {
    /// Makes a setting.
    ///
    /// # Errors
    ///
    /// A text is too long, or has control characters.
    pub fn new(action: OverrideAction, reason: &str, by: &str) -> Result<Self, InvalidSetting> {
        match &action {
            OverrideAction::Plan(name) => {
                if name.is_empty() || name.len() > MAX_PLAN {
                    return Err(InvalidSetting::Plan);
                }
                plain(name)?;
            }
            OverrideAction::Set(numbers) => {
                let texts = || numbers.texts().iter();
                let length: usize = texts().map(|(name, text)| name.len() + text.len()).sum();
                if !(1..=MAX_SET_LIMITS).contains(&texts().len()) || length > MAX_SET {
                    return Err(InvalidSetting::Numbers);
                }
                texts().try_for_each(|(name, text)| plain(name).and_then(|()| plain(text)))?;
            }
            OverrideAction::Exempt | OverrideAction::Block => {}
        }
        let Clearing { reason, by } = Clearing::new(reason, by)?;
        Ok(Self { action, reason, by })
    }
}

/// Refuses control characters.
fn plain(text: &str) -> Result<(), InvalidSetting> {
    match text.chars().any(char::is_control) {
        true => Err(InvalidSetting::Control),
        false => Ok(()),
    }
}

/// The reason and the author of a clearing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clearing {
    /// The reason.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: Box<str>,
    /// The author, like [`Setting::by`].
    #[serde(skip_serializing_if = "str::is_empty")]
    pub by: Box<str>,
}

impl Clearing {
    /// Makes a clearing.
    ///
    /// # Errors
    ///
    /// The reason is too long, or has control characters.
    pub fn new(reason: &str, by: &str) -> Result<Self, InvalidSetting> {
        if reason.len() > MAX_REASON {
            return Err(InvalidSetting::Reason);
        }
        plain(reason)?;
        Ok(Self {
            reason: reason.into(),
            by: by[..by.floor_char_boundary(MAX_BY)].into(),
        })
    }
}

/// An override as it was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The client, network or limit that the override applies to.
    pub subject: Subject,
    /// The version of the override: the time of the change, or a larger number. Later changes have larger versions.
    pub version: u64,
    /// The end of the override on the store's clock, in us since the epoch. `None` for never.
    pub ends: Option<Micros>,
    /// The content of the override.
    pub setting: Arc<Setting>,
}

/// A change to the override of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The name.
    pub subject: Subject,
    /// The override that was in force.
    pub before: Option<Override>,
    /// The override that is in force now.
    pub after: Option<Override>,
    /// The clearing, which may lack its author. `None` if the override was set, or ended by itself.
    pub cleared: Option<Arc<Clearing>>,
}

impl Change {
    /// Returns the change from one override of a name to another. Returns `None` if both are missing.
    pub(crate) fn new(before: Option<Override>, after: Option<Override>) -> Option<Self> {
        let subject = after.as_ref().or(before.as_ref())?.subject.clone();
        Some(Self {
            subject,
            before,
            after,
            cleared: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(texts: &[(&str, &str)]) -> OverrideAction {
        let texts = texts
            .iter()
            .map(|(name, text)| (name.to_string(), text.to_string()));
        OverrideAction::Set(Arc::new(SetNumbers::new(texts.collect())))
    }

    #[test]
    fn texts_are_bounded() {
        let plan = |name: &str| OverrideAction::Plan(name.into());
        let nine: Vec<String> = (0..9).map(|number| number.to_string()).collect();
        let nine: Vec<_> = nine.iter().map(|name| (&**name, "limit: 1")).collect();
        let long = "x".repeat(MAX_REASON + 1);
        for (action, reason, error) in [
            (OverrideAction::Block, &*long, InvalidSetting::Reason),
            (OverrideAction::Block, "a\u{1b}[2J", InvalidSetting::Control),
            (plan(""), "", InvalidSetting::Plan),
            (plan(&long[..MAX_PLAN + 1]), "", InvalidSetting::Plan),
            (plan("a\nb"), "", InvalidSetting::Control),
            (numbers(&[]), "", InvalidSetting::Numbers),
            (numbers(&nine), "", InvalidSetting::Numbers),
            (
                numbers(&[("a", &long), ("b", &long)]),
                "",
                InvalidSetting::Numbers,
            ),
            (numbers(&[("a", "b\nc")]), "", InvalidSetting::Control),
            (numbers(&[("a\t", "b")]), "", InvalidSetting::Control),
        ] {
            assert_eq!(Setting::new(action, reason, ""), Err(error), "{reason}");
        }
        Setting::new(numbers(&nine[1..]), "", "").unwrap();
        let setting = Setting::new(plan("gold"), &long[1..], &"ü".repeat(40)).unwrap();
        assert_eq!(setting.by.len(), 64);
    }

    #[test]
    fn what_is_written_is_read_again() {
        for action in [
            OverrideAction::Plan("gold".into()),
            numbers(&[("it", "limit: 9, window: \"1h\""), ("daily", "unlimited")]),
            OverrideAction::Exempt,
            OverrideAction::Block,
        ] {
            let setting = Setting::new(action, "a \"reason\" \\ of ü", "ops").unwrap();
            let text = serde_json::to_string(&setting).unwrap();
            assert_eq!(serde_json::from_str::<Setting>(&text).unwrap(), setting);
        }
        let text = r#"{"action":{"plan":"gold"},"reason":""}"#;
        let setting: Setting = serde_json::from_str(text).unwrap();
        assert_eq!(setting.action.to_string(), "plan gold");
        let text = r#"{"action":{"set":{"it":"limit: 9","daily":"unlimited"}},"reason":""}"#;
        let setting: Setting = serde_json::from_str(text).unwrap();
        assert_eq!(
            setting.action.to_string(),
            "set daily 'unlimited' it 'limit: 9'"
        );
    }
}
