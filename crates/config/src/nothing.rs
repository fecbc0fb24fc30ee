//! Finds keys without a value, such as a list whose entries are all commented out. The YAML library treats such a key like a missing key.

use crate::yaml::{Keys, Problem, Spanned};

use crate::check::Check;

/// Keys that restrict access, each with the note for its error. Such a key without a value is refused, because it would let every client
/// in.
const GUARDS: [(&str, &str); 2] = [
    (
        "allow",
        "are they commented out? Remove the key to let every client through, or list the clients that may pass",
    ),
    (
        "require",
        "write api_key, jwt or verified, or `none` to let every client through",
    ),
];

/// Refuses the keys in [`GUARDS`] if they have no value. Warns of all other keys without a value.
pub(crate) fn without_value(check: &mut Check<'_>) {
    // The text is valid YAML, because it has been read as a file before.
    if let Ok(keys) = crate::yaml::read::<Keys>(check.source, |_, _| None) {
        walk(check, &keys);
    }
}

fn walk(check: &mut Check<'_>, keys: &Keys) {
    match keys {
        Keys::Map(entries) => {
            for (key, value) in entries {
                match value {
                    Keys::Nothing => tell(check, key),
                    other => walk(check, other),
                }
            }
        }
        Keys::List(elements) => elements.iter().for_each(|element| walk(check, element)),
        Keys::Single | Keys::Nothing => {}
    }
}

fn tell(check: &mut Check<'_>, key: &Spanned<String>) {
    let name = &key.value;
    match GUARDS.iter().find(|(guard, _)| guard == name) {
        Some((_, remedy)) => {
            let what = if name == "allow" { "entries" } else { "value" };
            let problem = Problem::new(key.place, format!("`{name}` has no {what}"));
            check.refuse(problem.note(*remedy));
        }
        None => check.warn(
            Problem::new(key.place, format!("`{name}` has no value")).note(
                "it counts as absent; are its entries commented out? Write them, or remove the key",
            ),
        ),
    }
}
