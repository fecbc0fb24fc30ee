//! Claims of verified tokens, for limits that are counted per claim.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

/// The most members of an array in a claim. A claim with a longer array counts as missing.
const MAX_MEMBERS: usize = 64;

/// Claims of a caller's tokens. Contains only the claims that the configuration names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims(Box<[(Arc<str>, ClaimValue)]>);

/// The value of a claim: one text, or a sorted set of texts. An array counts as a set, so the order and repetition of its members do not
/// matter. An array of one member equals that member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimValue(Box<[Box<str>]>);

impl Claims {
    /// Makes claims of names and texts.
    pub fn of_texts(claims: impl IntoIterator<Item = (Arc<str>, Box<str>)>) -> Self {
        let claims = claims.into_iter();
        let claims = claims.map(|(name, text)| (name, ClaimValue([text].into())));
        Self(claims.collect())
    }

    /// Returns those claims of a token whose names are in `names`. Leaves out claims whose value cannot be part of a key, such as objects.
    pub fn of(names: &[Arc<str>], claims: &Map<String, Value>) -> Self {
        let named = names.iter().filter_map(|name| {
            let value = ClaimValue::of(at(claims, name)?)?;
            Some((name.clone(), value))
        });
        Self(named.collect())
    }

    /// Returns the value of a claim. `None` if no verified token has the claim.
    pub fn value(&self, name: &str) -> Option<&ClaimValue> {
        let named = self.0.iter().find(|(key, _)| **key == *name);
        named.map(|(_, value)| value)
    }

    /// Adds the claims of another token. If both tokens have a claim, keeps the value of the first token.
    pub(crate) fn add(&mut self, others: Self) {
        if self.0.is_empty() {
            *self = others;
            return;
        }
        let mut all = std::mem::take(&mut self.0).into_vec();
        for (name, value) in others.0 {
            if all.iter().all(|(key, _)| *key != name) {
                all.push((name, value));
            }
        }
        self.0 = all.into();
    }
}

impl ClaimValue {
    fn of(value: &Value) -> Option<Self> {
        let Value::Array(members) = value else {
            return Some(Self([member(value)?].into()));
        };
        if members.is_empty() || members.len() > MAX_MEMBERS {
            return None;
        }
        let members: Option<Vec<Box<str>>> = members.iter().map(member).collect();
        let mut members = members?;
        members.sort_unstable();
        members.dedup();
        Some(Self(members.into()))
    }

    /// Returns the texts of the value in sorted order. A value has at least one text.
    pub fn members(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(|member| &**member)
    }
}

impl fmt::Display for ClaimValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

/// Returns the claim of this name. If no claim has the whole name, the part before the first dot names an object, and the text after the
/// dot names a member of this object.
pub(crate) fn at<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if let Some(value) = claims.get(name) {
        return Some(value);
    }
    let (object, rest) = name.split_once('.')?;
    at(claims.get(object)?.as_object()?, rest)
}

/// Returns the ID in a claim's value: a non-empty text without control characters, or a whole number. `None` for any other value.
pub(crate) fn text(value: &Value) -> Option<Box<str>> {
    match value {
        // IDs go into logs and headers, which must not have control characters.
        Value::String(id) if !id.is_empty() && !id.contains(char::is_control) => {
            Some(id.as_str().into())
        }
        Value::Number(id) if !id.is_f64() => Some(id.to_string().into()),
        _ => None,
    }
}

fn member(value: &Value) -> Option<Box<str>> {
    match value {
        Value::Bool(true) => Some("true".into()),
        Value::Bool(false) => Some("false".into()),
        other => text(other),
    }
}

#[cfg(test)]
mod tests;
