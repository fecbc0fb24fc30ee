//! Plans: the plans of a configuration, and the plan of a client.
//!
//! A plan has a name, and quotas that replace the limits' own quotas. This module has the name and the index of each plan. The quotas of
//! plans are in `Rule::plans` of tidegate-tower. Numbers that an override sets for a client replace numbers of the client's plan.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tidegate_store::Limit;

/// The plan of a client. An override may replace some numbers of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientPlan(Arc<Content>);

#[derive(Debug, PartialEq, Eq)]
struct Content {
    name: Box<str>,
    // The plan's index in [`ClientPlans`]. `usize::MAX` if an override replaces numbers of the plan.
    index: usize,
    over: Option<Over>,
}

/// The numbers of an override, and the plan whose numbers the override replaces.
#[derive(Debug, PartialEq, Eq)]
pub struct Over {
    pub limits: Arc<OwnLimits>,
    pub base: Option<ClientPlan>,
}

/// The name of a limit, and the limit with the numbers of an override. `None` if the override makes the client unlimited.
pub type OwnLimit = (Box<str>, Option<Arc<Limit>>);

/// Limits with the numbers of an override.
#[derive(Debug)]
pub struct OwnLimits(pub Box<[OwnLimit]>);

/// Two values are equal only if they are the same object, because limits cannot be compared.
impl PartialEq for OwnLimits {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for OwnLimits {}

impl OwnLimits {
    /// Returns the limit of this name. `None` if the override does not change the limit, and `Some(None)` if the override makes the client
    /// unlimited.
    pub fn get(&self, name: &str) -> Option<Option<&Arc<Limit>>> {
        let entry = self.0.iter().find(|(key, _)| **key == *name);
        entry.map(|(_, limit)| limit.as_ref())
    }
}

impl ClientPlan {
    /// Makes a plan in which the numbers of an override replace numbers of `base`, the client's plan.
    pub fn over(limits: Arc<OwnLimits>, base: Option<Self>) -> Self {
        let name = base.as_ref().map(|base| base.name().into());
        Self(Arc::new(Content {
            name: name.unwrap_or_default(),
            index: usize::MAX,
            over: Some(Over { limits, base }),
        }))
    }

    /// Returns the plan's index in [`ClientPlans`]. Returns `usize::MAX` if an override replaces numbers of the plan.
    pub fn index(&self) -> usize {
        self.0.index
    }

    /// Returns the plan's name in the configuration. The name is empty if an override gives numbers to a client without a plan.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the numbers of the override that this plan contains, and the plan whose numbers the override replaces. `None` if no override
    /// replaces numbers of the plan.
    pub fn laid_over(&self) -> Option<&Over> {
        self.0.over.as_ref()
    }

    /// Returns whether an override gives the numbers of this limit.
    pub fn sets(&self, limit: &str) -> bool {
        let over = self.laid_over();
        over.is_some_and(|over| over.limits.get(limit).is_some())
    }
}

impl fmt::Display for ClientPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// All plans of a configuration. A clone is cheap.
#[derive(Clone, Debug, Default)]
pub struct ClientPlans(Arc<[ClientPlan]>);

impl ClientPlans {
    /// Makes plans of these names, in order. No two names may be equal.
    pub fn new(names: impl IntoIterator<Item = impl Into<Box<str>>>) -> Self {
        let names = names.into_iter().enumerate();
        let plans = names.map(|(index, name)| {
            ClientPlan(Arc::new(Content {
                name: name.into(),
                index,
                over: None,
            }))
        });
        Self(plans.collect())
    }

    /// Returns the plan of this name, if there is one.
    pub fn called(&self, name: &str) -> Option<ClientPlan> {
        self.0.iter().find(|plan| plan.name() == name).cloned()
    }

    /// Returns all plans, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &ClientPlan> {
        self.0.iter()
    }
}

/// The plan that a key or a token names for its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NamedPlan {
    /// No plan: the limits' own quotas apply.
    Nothing,
    /// A plan of the configuration.
    Plan(ClientPlan),
    /// The name of a plan that the configuration does not define. A name of more than 64 characters is cut. The limits' own quotas apply.
    Unknown(Box<str>),
}

impl NamedPlan {
    /// Reads the plan from a claim whose value should be a plan's name.
    pub(crate) fn by(claim: &Value, plans: &ClientPlans) -> Self {
        let name = match claim {
            Value::Null => return Self::Nothing,
            Value::String(name) => Cow::Borrowed(name.as_str()),
            other => Cow::Owned(other.to_string()),
        };
        match plans.called(&name) {
            Some(plan) => Self::Plan(plan),
            None => Self::Unknown(cut(&name)),
        }
    }
}

/// Cuts a name for a log line, and replaces characters that would break the line.
fn cut(name: &str) -> Box<str> {
    const LONGEST: usize = 64;
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    let cut: String = name.chars().take(LONGEST).map(shown).collect();
    cut.into()
}
