//! Secrets: texts that messages must not show.

use std::fmt;

use crate::yaml::{Place, Problem};

use crate::check::Check;
use crate::value::Fault;

/// A secret, which no message and no `Debug` shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Makes a secret of this text.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Returns the secret itself, for hashing and comparing.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// The length of the shortest key, token or secret without a warning, in characters. Shorter texts could be guessed.
pub const LEAST_KEY: usize = 16;

/// The first and the last characters of placeholders that other programs fill in.
const PLACEHOLDERS: [(&str, &str); 6] = [
    ("$(", ")"),
    ("{{", "}}"),
    ("%", "%"),
    ("<", ">"),
    ("@", "@"),
    ("$", ""),
];

/// The first characters of paths at which deployments keep secrets.
const FILES: [&str; 10] = [
    "file:",
    "./",
    "../",
    "~/",
    "/run/",
    "/var/",
    "/etc/",
    "/mnt/",
    "/home/",
    "/secrets/",
];

/// Refuses a placeholder that another program should have replaced by the secret.
pub(crate) fn filled_in(text: &str) -> Result<(), Fault> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-. |".contains(c);
    // `$name` may be a good secret, so only `$NAME` in capitals is a placeholder.
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let is_placeholder = PLACEHOLDERS.iter().any(|(start, end)| {
        let name = text
            .strip_prefix(start)
            .and_then(|rest| rest.strip_suffix(end));
        name.is_some_and(|name| match *end {
            "" => !name.is_empty() && name.chars().all(is_name),
            _ => !name.is_empty() && name.chars().all(is_word),
        })
    });
    match is_placeholder {
        true => Err(Fault::Because(
            "this is a placeholder: `$NAME`, `$(NAME)`, `{{ … }}` and `%NAME%` are not filled in here; a variable is written ${NAME}",
        )),
        false => Ok(()),
    }
}

/// Warns of a secret that looks like the path of a file, or is short enough to be guessed. `what` is the name of the secret's key in the
/// configuration, for messages.
pub(crate) fn short(check: &mut Check<'_>, what: &str, secret: &Secret, place: Option<Place>) {
    if FILES.iter().any(|start| secret.expose().starts_with(start)) {
        let problem = Problem::new(place, format!("this {what} looks like the name of a file"));
        check.warn(problem.without_line().note(
            "its text is the secret itself: put the content of the file into a variable of the environment, and write ${NAME}",
        ));
        return;
    }
    if secret.expose().chars().count() < LEAST_KEY {
        let problem = Problem::new(place, format!("this {what} is short enough to be guessed"));
        check.warn(problem.without_line().note(format!(
            "use random text of {LEAST_KEY} characters or more, such as a key of `tidegate keys new NAME`"
        )));
    }
}
