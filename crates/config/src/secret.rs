//! Texts that no message shows.

use std::fmt;

use tidegate_yaml::{Place, Problem};

use crate::check::Check;

/// A secret, which no message and no `Debug` shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A secret of this text.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The secret itself, for hashing and comparing with.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// The least characters of a key, a token or a secret that cannot be guessed.
pub const LEAST_KEY: usize = 16;

/// Whether this is `$NAME`, as shells write variables.
fn is_variable(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    text.strip_prefix('$')
        .is_some_and(|name| !name.is_empty() && name.chars().all(is_part))
}

/// Refuses a secret that is the name of a variable, and warns of one that can be guessed. `what` is its key.
pub(crate) fn short(check: &mut Check<'_>, what: &str, secret: &Secret, place: Option<Place>) {
    if is_variable(secret.expose()) {
        let problem = Problem::new(place, format!("this {what} is the name of a variable"));
        check.refuse(problem.note("a variable is written ${NAME}, with braces"));
        return;
    }
    if secret.expose().chars().count() < LEAST_KEY {
        let problem = Problem::new(place, format!("this {what} is short enough to be guessed"));
        check.warn(problem.without_line().note(format!(
            "use random text of {LEAST_KEY} characters or more, such as a key of `tidegate keys new NAME`"
        )));
    }
}
