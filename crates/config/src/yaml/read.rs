//! Reads YAML: the calls of the YAML library, the library's options, and the translation of the library's errors.
//!
//! An error of the library contains its place, and the keys that a map may have. [`report`](crate::yaml::report) writes the messages.

use serde::de::DeserializeOwned;
use serde_saphyr::options::MergeKeyPolicy;
use serde_saphyr::{Error, Options};

use crate::yaml::report::{Place, Problem, Source};

mod indent;

/// Reads the text of a source, without filling in variables. `hint` gets an unknown key and the keys that are allowed in its place, and may
/// return a note.
///
/// # Errors
///
/// The text is not valid YAML, or a value has a wrong type. Only the first mistake is reported.
pub(crate) fn read<T: DeserializeOwned>(
    source: &Source<'_>,
    hint: impl Fn(&str, &[&str]) -> Option<&'static str>,
) -> Result<T, Problem> {
    serde_saphyr::from_str_with_options(source.text, options()).map_err(|error| {
        let problem = hidden(&error, source).unwrap_or_else(|| problem(&error, source));
        match unknown_field(&error).and_then(|(key, allowed)| hint(key, allowed)) {
            Some(note) => problem.meaning(note),
            None => problem,
        }
    })
}

/// Returns the unknown key that an error reports, and the keys that are allowed in its place.
fn unknown_field(error: &Error) -> Option<(&str, &[&'static str])> {
    match error {
        Error::WithSnippet { error, .. } | Error::AliasError { error, .. } => unknown_field(error),
        Error::SerdeUnknownField {
            field, expected, ..
        } => Some((field, expected)),
        _ => None,
    }
}

/// Returns the problem of an unknown key. If a wrong indentation may be the reason, adds a note.
pub(crate) fn unknown_key(
    place: Option<Place>,
    key: &str,
    allowed: &[&str],
    source: &Source<'_>,
) -> Problem {
    let problem = Problem::unknown_key(place, key, allowed);
    match place.and_then(|place| indent::empty_above(key, place, source)) {
        Some(note) => problem.note(note),
        None => problem,
    }
}

/// Returns the real mistake, if the library's error is only a consequence of it.
fn hidden(error: &Error, source: &Source<'_>) -> Option<Problem> {
    // The messages below quote the text, so a secret source gets none of them.
    if source.is_secret {
        return None;
    }
    let place = error.location().and_then(Place::of)?;
    let address = indent::bare_address(place, source);
    address.or_else(|| match error {
        Error::WithSnippet { error, .. } | Error::AliasError { error, .. } => hidden(error, source),
        Error::SerdeMissingField { field, .. } => indent::missing_key(field, place, source),
        Error::SerdeUnknownField {
            field, expected, ..
        } => {
            let note = indent::empty_above(field, place, source)?;
            Some(Problem::unknown_key(Some(place), field, expected).note(note))
        }
        Error::Unexpected { .. }
        | Error::SerdeInvalidType { .. }
        | Error::SerdeInvalidValue { .. }
            if kind(source, place) == NOTHING =>
        {
            indent::empty_value(place, source)
        }
        // The library's error type has no variant for this error, so the text is compared.
        other if other.to_string().contains("mapping values are not allowed") => {
            indent::too_deep(place, source)
        }
        _ => None,
    })
}

/// Returns the options of the library. The bounds allow about 30,000 routes, each with at least one alias. A short file that aliases expand
/// to a huge one is refused.
fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 2_000_000,
            max_nodes: 1_000_000,
            max_depth: 32,
            max_aliases: 100_000,
            enforce_alias_anchor_ratio: false,
            max_total_scalar_bytes: 16 << 20,
            max_documents: 2,
        },
        // A merge key could replace a limit's numbers without anyone noticing. So `<<` is treated as an unknown key.
        merge_keys: MergeKeyPolicy::AsOrdinary,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

fn problem(error: &Error, source: &Source<'_>) -> Problem {
    let place = error.location().and_then(Place::of);
    match error {
        Error::WithSnippet { error, .. } | Error::AliasError { error, .. } => {
            problem(error, source)
        }
        Error::SerdeUnknownField {
            field, expected, ..
        } => Problem::unknown_key(place, field, expected),
        Error::SerdeMissingField { field, .. } => {
            Problem::new(place, format!("the key `{field}` is missing here"))
        }
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            // A key that is not a word may be a misplaced value, such as a secret. So the message does not quote it.
            let is_word = key
                .chars()
                .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'));
            let problem = match is_word {
                true => Problem::new(place, format!("the key `{key}` is here twice")),
                false => Problem::new(place, "this key is here twice").without_line(),
            };
            problem.first_at(source, place.and_then(|place| first(key, place, source)))
        }
        Error::Unexpected { expected, .. } => {
            let expected = match *expected {
                "mapping start" => KEYS,
                "sequence start" => LIST,
                "string scalar" => SINGLE,
                other => other,
            };
            let kind = place.map_or(NOTHING, |place| kind(source, place));
            let problem = match kind {
                kind if kind == expected => Problem::new(place, format!("expected {expected}")),
                kind if kind == SINGLE && expected == LIST => {
                    Problem::new(place, format!("expected {expected}, found {kind}"))
                        .note("a list of one value has brackets, too, such as `[a]`")
                }
                kind => Problem::new(place, format!("expected {expected}, found {kind}")),
            };
            // A value in the place of keys may be a secret whose key is missing. So the message does not show the line.
            match expected == KEYS && matches!(kind, SINGLE | LIST | "a list") {
                true => problem.without_line(),
                false => problem,
            }
        }
        Error::NullIntoString { .. } => Problem::new(place, "a value is missing here"),
        // The library's place of this error is the line with the key of the list. The line is not shown, because it may contain entries of
        // the list, and entries without keys may be secrets.
        Error::SerdeInvalidType {
            unexpected,
            expected,
            ..
        } if unexpected == "sequence" => {
            Problem::new(place, format!("expected {expected}, found a list")).without_line()
        }
        Error::SerdeInvalidType { expected, .. }
        | Error::SerdeInvalidValue { expected, .. }
        | Error::SerdeInvalidLength { expected, .. } => {
            let kind = place.map_or("something else", |place| kind(source, place));
            Problem::new(place, format!("expected {expected}, found {kind}"))
        }
        Error::UnknownAnchor { .. } => Problem::new(place, "this alias has no anchor before it")
            .note("a value that begins with `*` or `&` must be quoted"),
        Error::MultipleDocuments { .. } => Problem::new(place, "a second document begins here")
            .note("a configuration is one document"),
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => Problem::new(place, TOO_LARGE),
        Error::UnsupportedTag { .. } | Error::TaggedStructFieldName { .. } => {
            Problem::new(place, "tags are not used here")
                .note("a value that begins with `!` must be quoted")
        }
        Error::Message { msg, .. } => not_yaml(msg, place, source),
        // Other errors are rare. The first line of the library's text is enough.
        other => {
            let text = other.to_string();
            let line = text.lines().next().unwrap_or_default();
            let reason = line.split(" at line ").next().unwrap_or_default();
            not_yaml(reason, place, source)
        }
    }
}

fn not_yaml(message: &str, place: Option<Place>, source: &Source<'_>) -> Problem {
    if message.contains("recursion limit") {
        return Problem::new(place, TOO_LARGE);
    }
    let problem = Problem::new(place, format!("this is not YAML: {message}"));
    let line = place.map_or("", |place| source.line(place.line));
    // The value may continue on the next line, so the tab may also be there.
    if line.trim_start_matches(' ').starts_with('\t') || message.contains("found a tab") {
        problem.note("indent lines with spaces, not with tabs")
    } else if line.contains("${") {
        problem.note("inside of { } and [ ] a variable must be quoted: \"${NAME}\"")
    } else if line.contains("/{") {
        problem.note("inside of { } and [ ] a path with a {name} must be quoted: \"/rides/{id}\"")
    } else {
        problem
    }
}

const TOO_LARGE: &str = "this file is too large, or nested too deep, or has too many aliases";

const NOTHING: &str = "nothing";

const KEYS: &str = "keys with values (`key: value`)";

const SINGLE: &str = "a single value";

const LIST: &str = "a list (`[a, b]`)";

/// Returns the kind of value at a place, by its first character.
fn kind(source: &Source<'_>, place: Place) -> &'static str {
    let line = source.line(place.line);
    let mut rest = line.chars().skip(place.column - 1);
    match (rest.next(), rest.next()) {
        (Some('['), _) | (Some('-'), Some(' ') | None) => "a list",
        (Some('{'), _) => "keys with values",
        // If a key has no value, the library's place is the colon.
        (None | Some('#' | ' '), _) | (Some(':'), Some(' ') | None) => NOTHING,
        _ => {
            // The place of a block map is its first key.
            let text: String = line.chars().skip(place.column - 1).collect();
            if text.contains(": ") || text.trim_end().ends_with(':') {
                "keys with values"
            } else {
                SINGLE
            }
        }
    }
}

/// Returns the first place of a key that a block map has twice. Searches the lines above `place` for the same key in the same column.
fn first(key: &str, place: Place, source: &Source<'_>) -> Option<Place> {
    let indent = place.column - 1;
    let above = (1..place.line).rev().map(|line| (line, source.line(line)));
    let mut map = above.take_while(|(_, line)| {
        let blanks = line.chars().take_while(|c| *c == ' ').count();
        blanks >= indent || line.trim().is_empty() || line.trim().starts_with('#')
    });
    let (line, _) = map.find(|(_, line)| {
        let text = line.get(indent..).unwrap_or_default();
        let after = text.trim_start_matches(['"', '\'']).strip_prefix(key);
        after.is_some_and(|after| after.trim_start_matches(['"', '\'']).starts_with(':'))
    })?;
    Some(Place { line, ..place })
}
