//! Values that say what the access log says.

use serde_json::{Map, json};

use super::number::{digits, object, pattern};
use super::{Fault, Value};
use tidegate_telemetry::RequestOutcome;
use tidegate_telemetry::access_log::{AccessField, AccessLogSettings, AccessPiece};

/// How a line of the access log looks, as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AccessFormatText {
    Text,
    Json,
    Common,
    Combined,
    Template(Vec<AccessPiece>),
}

impl AccessFormatText {
    const WORDS: [(&str, Self); 4] = [
        ("text", Self::Text),
        ("json", Self::Json),
        ("common", Self::Common),
        ("combined", Self::Combined),
    ];
}

impl Value for AccessFormatText {
    const NAME: &'static str = "AccessFormat";
    const WHAT: &'static str = "a format of the access log";
    const ALLOWED: &'static str = "text, json, common, combined, or a template with `$` and names of fields, such as \
                                   \"$time $peer $status\"; docs/operations.md lists the fields";

    fn read(text: &str) -> Result<Self, Fault> {
        if let Some((_, format)) = Self::WORDS.into_iter().find(|(word, _)| *word == text) {
            return Ok(format);
        }
        if !text.contains('$') {
            return Err(Fault::Form);
        }
        template(text).map(Self::Template)
    }

    fn schema() -> Map<String, serde_json::Value> {
        let words = Self::WORDS.map(|(word, _)| word);
        object(json!({ "anyOf": [{ "enum": words }, { "type": "string", "pattern": r"\$" }] }))
    }
}

/// Reads a template: `$name` and `${name}` are fields, `$$` is a `$`.
fn template(text: &str) -> Result<Vec<AccessPiece>, Fault> {
    if text.contains(|c: char| c.is_control()) {
        return Err(Fault::Because(
            "a template is one line, without control characters",
        ));
    }
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('$') {
        plain.push_str(before);
        if let Some(behind) = behind.strip_prefix('$') {
            plain.push('$');
            rest = behind;
            continue;
        }
        let (name, behind) = match behind.strip_prefix('{') {
            Some(inner) => inner
                .split_once('}')
                .ok_or(Fault::Because("a `${` of the template has no `}`"))?,
            None => {
                let is_end = |c: char| !(c.is_ascii_lowercase() || c == '_');
                behind.split_at(behind.find(is_end).unwrap_or(behind.len()))
            }
        };
        let field = AccessField::named(name);
        let field = field.ok_or_else(|| Fault::Quoting(format!("there is no field `${name}`")))?;
        if !plain.is_empty() {
            pieces.push(AccessPiece::Text(std::mem::take(&mut plain)));
        }
        pieces.push(AccessPiece::Field(field));
        rest = behind;
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        pieces.push(AccessPiece::Text(plain));
    }
    Ok(pieces)
}

impl Value for AccessField {
    const NAME: &'static str = "AccessField";
    const WHAT: &'static str = "a field of the access log";
    const ALLOWED: &'static str = "one of the fields in docs/operations.md";

    fn read(text: &str) -> Result<Self, Fault> {
        Self::named(text).ok_or(Fault::Form)
    }

    fn words() -> impl Iterator<Item = &'static str> {
        Self::ALL.iter().map(|field| field.name())
    }
}

impl Value for RequestOutcome {
    const NAME: &'static str = "Outcome";
    const WHAT: &'static str = "an outcome of a request";
    const ALLOWED: &'static str = "one of a few words";

    fn read(text: &str) -> Result<Self, Fault> {
        let found = Self::ALL.into_iter().find(|it| it.label() == text);
        found.ok_or(Fault::Form)
    }

    fn words() -> impl Iterator<Item = &'static str> {
        Self::ALL.into_iter().map(Self::label)
    }
}

/// A status, or all of a class; both ends are included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StatusRange(pub(crate) u16, pub(crate) u16);

impl Value for StatusRange {
    const NAME: &'static str = "StatusRange";
    const WHAT: &'static str = "a status or a class of them";
    const ALLOWED: &'static str = "a status from 100 to 599, such as 404, or a class, such as 5xx";

    fn read(text: &str) -> Result<Self, Fault> {
        if let Some(class) = text.strip_suffix("xx").and_then(digits) {
            let class = u16::try_from(class)
                .ok()
                .filter(|class| (1..=5).contains(class));
            return class
                .map(|class| Self(100 * class, 100 * class + 99))
                .ok_or(Fault::Form);
        }
        let status = digits(text).and_then(|status| u16::try_from(status).ok());
        let status = status.filter(|status| (100..=599).contains(status));
        status.map(|status| Self(status, status)).ok_or(Fault::Form)
    }

    fn schema() -> Map<String, serde_json::Value> {
        let status = json!({ "type": "integer", "minimum": 100, "maximum": 599 });
        object(
            json!({ "anyOf": [status, { "type": "string", "pattern": "^[1-5](xx|[0-9]{2})$" }] }),
        )
    }
}

/// A share, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample(pub(crate) u32);

impl Value for Sample {
    const NAME: &'static str = "Sample";
    const WHAT: &'static str = "a share";
    const ALLOWED: &'static str =
        "a percentage from 0% to 100% with at most four decimals, such as 1% or 0.1%";

    fn read(text: &str) -> Result<Self, Fault> {
        let number = text.strip_suffix('%').ok_or(Fault::Form)?;
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let whole = digits(whole).ok_or(Fault::Form)?;
        if !(1..=4).contains(&decimals.len()) || !decimals.bytes().all(|byte| byte.is_ascii_digit())
        {
            return Err(Fault::Form);
        }
        let decimals = format!("{decimals:0<4}")
            .parse::<u64>()
            .map_err(|_| Fault::Form)?;
        let millionths = whole.saturating_mul(10_000).saturating_add(decimals);
        let millionths = u32::try_from(millionths).ok();
        let share = millionths.filter(|share| *share <= AccessLogSettings::ALL);
        share.map(Self).ok_or(Fault::Form)
    }

    fn schema() -> Map<String, serde_json::Value> {
        pattern(r"^[0-9]{1,3}(\.[0-9]{1,4})?%$")
    }
}

#[cfg(test)]
mod tests;
