//! Plans: which there are, and which one a client has.
//!
//! A plan is named quotas in place of a limit's own. Here it is a name and a number; what it changes stands with each limit, in its
//! [`Rule`](crate::Rule).

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// The plan of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientPlan {
    name: Arc<str>,
    index: usize,
}

impl ClientPlan {
    /// Its place among all [`ClientPlans`].
    pub const fn index(&self) -> usize {
        self.index
    }

    /// What users call it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for ClientPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// All plans that there are; a few, and cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ClientPlans(Arc<[ClientPlan]>);

impl ClientPlans {
    /// Plans of these names, of which no two are alike, in order.
    pub fn new(names: impl IntoIterator<Item = impl Into<Arc<str>>>) -> Self {
        let names = names.into_iter().enumerate();
        let plans = names.map(|(index, name)| ClientPlan {
            name: name.into(),
            index,
        });
        Self(plans.collect())
    }

    /// The plan of this name, if there is one.
    pub fn called(&self, name: &str) -> Option<ClientPlan> {
        self.0.iter().find(|plan| &*plan.name == name).cloned()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &ClientPlan> {
        self.0.iter()
    }
}

/// What a token says of its client's plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NamedPlan {
    /// Nothing: the limits' own quotas hold.
    Nothing,
    /// A plan of the configuration.
    Plan(ClientPlan),
    /// A plan that the configuration does not have, by its name, which may be cut. The quotas of the limits apply.
    Unknown(Box<str>),
}

impl NamedPlan {
    /// What a claim that should hold a plan's name says.
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

/// As much of a name as a log line should hold, without what would break it.
fn cut(name: &str) -> Box<str> {
    const LONGEST: usize = 64;
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    let cut: String = name.chars().take(LONGEST).map(shown).collect();
    cut.into()
}
