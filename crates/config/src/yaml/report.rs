//! Problems of a file, and their messages: the place, the line, and the allowed values.

mod outcome;
mod secrets;

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fmt::Write as _;

pub use outcome::{ConfigError, Warning};

/// The most problems that one error shows. The error contains the number of further problems.
pub(crate) const MAX_PROBLEMS: usize = 20;

/// The most characters of a line that a message shows.
const WIDEST: usize = 100;

/// The longest quote from the file in a message, in characters. Quotes stand between backticks.
const MAX_QUOTE: usize = 200;

/// The first words of a note with the name that was probably meant.
const GUESS: &str = "did you mean ";

/// The longest message or note, in bytes.
const MAX_MESSAGE: usize = 8 << 10;

/// A place in a file. Columns and lengths count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The line, from 1.
    pub(crate) line: usize,
    /// The column, from 1.
    pub(crate) column: usize,
    /// The length, in characters.
    pub(crate) length: usize,
}

impl Place {
    /// Converts a place of the YAML parser. `None` if the parser does not have the place.
    pub(crate) fn of(location: serde_saphyr::Location) -> Option<Self> {
        let number = |number: u64| usize::try_from(number).ok();
        Some(Self {
            line: number(location.line()).filter(|line| *line > 0)?,
            column: number(location.column())?.max(1),
            length: number(location.span().len())?,
        })
    }

    /// Returns the place after the end of `text`.
    pub(crate) fn end_of(text: &str) -> Option<Self> {
        let last = text.rsplit('\n').next()?;
        Some(Self {
            line: text.matches('\n').count() + 1,
            column: last.chars().count() + 1,
            length: 1,
        })
    }
}

/// An error or a warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The place of the mistake, if it has one.
    pub(crate) place: Option<Place>,
    message: String,
    notes: Vec<String>,
    hides_line: bool,
}

impl Problem {
    /// Makes a problem with this message, at this place or without a place.
    pub(crate) fn new(place: impl Into<Option<Place>>, message: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            message: shortened(message.into()),
            notes: Vec::new(),
            hides_line: false,
        }
    }

    /// Adds a note: the allowed values, another place, or a remedy.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(shortened(note.into()));
        self
    }

    /// Returns the message and the notes in one line, without the place.
    pub(crate) fn in_one_line(&self) -> String {
        let parts = std::iter::once(&self.message).chain(&self.notes);
        let parts: Vec<_> = parts.map(String::as_str).collect();
        without_users(&parts.join("; "))
    }

    /// Makes a problem whose message does not show the line, because the line may contain a secret.
    pub(crate) fn without_line(self) -> Self {
        Self {
            hides_line: true,
            ..self
        }
    }

    /// Returns the problem of an unknown key in a place where the keys `allowed` may stand. The line is not shown if the key may be a
    /// misspelled key with a secret as its value.
    pub(crate) fn unknown_key(place: Option<Place>, key: &str, allowed: &[&str]) -> Self {
        // If `key` is not a word, it may be a value whose key is missing. So the message does not quote it, in case it is a secret.
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '<');
        // If a key for a secret may stand here, `key` may be that secret, even if it is a word.
        let meant = nearest(key, allowed.iter().copied());
        let is_value = meant.is_none()
            && ["hash", "token", "url"]
                .iter()
                .any(|it| allowed.contains(it));
        let message = if key.chars().all(is_word) && !is_value {
            format!("unknown key `{key}`")
        } else {
            "this is not a key that is known here".to_owned()
        };
        let length = key.chars().count();
        let mut problem = Self::new(place.map(|place| Place { length, ..place }), message);
        problem.hides_line = match meant {
            Some(meant) => secrets::may_be_secret(meant),
            None => allowed.iter().any(|key| secrets::may_be_secret(key)),
        };
        problem.choices(key, allowed)
    }

    /// Adds a note that explains an unknown name. Removes the note with the guessed name ([`GUESS`]), because the guess is wrong.
    pub(crate) fn meaning(mut self, note: &str) -> Self {
        self.notes.retain(|note| !note.starts_with(GUESS));
        self.note(note)
    }

    /// Adds the error of another file, as one note for each line of the error.
    pub(crate) fn caused_by(self, error: &ConfigError) -> Self {
        let lines = error.text.lines().filter(|line| !line.is_empty());
        lines.fold(self, |problem, line| {
            problem.note(line.trim_start().trim_start_matches("= "))
        })
    }

    /// Adds a note with the first place of a name or value that stands twice. `first` is this place; `None` adds no note.
    pub(crate) fn first_at(self, source: &Source<'_>, first: Option<Place>) -> Self {
        match first {
            Some(_) => self.note(format!("the first is at {}", source.at(first))),
            None => self,
        }
    }

    /// Adds notes with the allowed names, and with the name that was probably meant.
    pub(crate) fn choices(
        self,
        word: &str,
        allowed: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Self {
        let allowed: Vec<_> = allowed.into_iter().collect();
        let names = || allowed.iter().map(AsRef::as_ref);
        let this = match nearest(word, names()) {
            Some(meant) => self.note(format!("{GUESS}`{meant}`?")),
            None => self,
        };
        // A list of more than 30 names would not help.
        let mut list = names().take(30).collect::<Vec<_>>().join(", ");
        if names().count() > 30 {
            list.push_str(", …");
        }
        match list.as_str() {
            "" => this,
            list => this.note(format!("allowed here: {list}")),
        }
    }
}

/// The text of a configuration, and its name.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    /// The name in messages: the file's path.
    pub(crate) name: &'a str,
    /// The whole text.
    pub(crate) text: &'a str,
    /// Whether the source may contain secrets, so that messages show no text of it.
    pub(crate) is_secret: bool,
    /// Whether values of the key `key` are no secrets.
    has_plain_keys: bool,
    /// The lines of the text.
    pub(crate) lines: Vec<&'a str>,
    /// For each line, whether messages may show it. Computed when the first message needs it.
    shown: OnceCell<Vec<bool>>,
}

impl<'a> Source<'a> {
    /// Makes a source of this name and text.
    pub(crate) fn new(name: &'a str, text: &'a str) -> Self {
        Self {
            name,
            text,
            is_secret: false,
            has_plain_keys: false,
            lines: text.lines().collect(),
            shown: OnceCell::new(),
        }
    }

    /// Makes a source whose messages show places, but no lines.
    pub(crate) fn secret(name: &'a str, text: &'a str) -> Self {
        Self {
            is_secret: true,
            ..Self::new(name, text)
        }
    }

    /// Makes a source in which the key `key` is an ordinary name, so that messages may show its lines.
    pub(crate) fn of_descriptors(name: &'a str, text: &'a str) -> Self {
        Self {
            has_plain_keys: true,
            ..Self::new(name, text)
        }
    }

    /// Returns the line with this number, counted from 1. Returns an empty text if the source has fewer lines.
    pub(crate) fn line(&self, number: usize) -> &'a str {
        let line = number.checked_sub(1).and_then(|at| self.lines.get(at));
        line.copied().unwrap_or_default()
    }

    /// Returns `file:line:column`, or `file` if `place` is `None`.
    pub(crate) fn at(&self, place: Option<Place>) -> String {
        match place {
            Some(place) => format!("{}:{}:{}", self.name, place.line, place.column),
            None => self.name.to_owned(),
        }
    }

    /// Returns one error that contains all problems, in the order of the file.
    pub(crate) fn refuse(&self, mut problems: Vec<Problem>) -> ConfigError {
        problems.sort_by_key(|problem| problem.place);
        let more = problems.len().saturating_sub(MAX_PROBLEMS);
        let shown = problems.iter().take(MAX_PROBLEMS);
        let mut text = shown
            .map(|problem| self.tell("error", problem))
            .collect::<Vec<_>>()
            .join("\n\n");
        if more > 0 {
            let _ = write!(text, "\n\nand {more} more");
        }
        ConfigError {
            text,
            files: BTreeSet::new(),
        }
    }

    /// Returns all warnings, in the order of the file.
    pub(crate) fn warn(&self, mut problems: Vec<Problem>) -> Vec<Warning> {
        problems.sort_by_key(|problem| problem.place);
        let tell = |problem| Warning(self.tell("warning", problem));
        problems.iter().map(tell).collect()
    }

    // Writing to a String cannot fail.
    fn tell(&self, kind: &str, problem: &Problem) -> String {
        let message = without_users(&problem.message);
        let mut gutter = String::new();
        let mut text = format!("{kind}: {}: {message}", self.at(problem.place));
        if let Some(place) = problem.place.filter(|place| self.shows(*place, problem)) {
            let number = place.line.to_string();
            gutter = " ".repeat(number.len());
            let (line, carets) = self.excerpt(place);
            let _ = write!(text, "\n{gutter} |\n{number} | {line}");
            // If the line is empty, the blank after the `|` is removed.
            text.truncate(text.trim_end_matches(' ').len());
            let _ = write!(text, "\n{gutter} | {carets}");
        }
        for note in &problem.notes {
            let _ = write!(text, "\n{gutter} = {note}");
        }
        text
    }

    /// Whether the message of a problem may show its line.
    fn shows(&self, place: Place, problem: &Problem) -> bool {
        if self.is_secret || problem.hides_line {
            return false;
        }
        let shown = || secrets::shown_of(&self.lines, self.has_plain_keys);
        let shown = self.shown.get_or_init(shown);
        // The place of an error may be after the last line.
        shown.get(place.line - 1).copied().unwrap_or(true)
    }

    /// Returns the part of a line around a place, and the carets for the line below it.
    fn excerpt(&self, place: Place) -> (String, String) {
        let printable = |c: char| if c.is_control() { ' ' } else { c };
        let line: Vec<char> = self.line(place.line).chars().map(printable).collect();
        let start = line.len().min(place.column - 1);
        let end = line.len().min(start + place.length);
        let first = if line.len() > WIDEST {
            start.saturating_sub(WIDEST / 2)
        } else {
            0
        };
        let last = line.len().min(first + WIDEST);
        let mut shown = String::new();
        if first > 0 {
            shown.push('…');
        }
        shown.extend(&line[first..last]);
        if last < line.len() {
            shown.push('…');
        }
        let shift = start - first + usize::from(first > 0);
        let width = end.min(last).saturating_sub(start).max(1);
        (shown, " ".repeat(shift) + &"^".repeat(width))
    }
}

/// Replaces the user and password before each `@` of a text by `***`, in URLs and in addresses without a scheme.
fn without_users(text: &str) -> String {
    let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`');
    let words = text.split_inclusive(is_end).map(|word| {
        let end = word.chars().last().filter(|c| is_end(*c));
        let length = word.len() - end.map_or(0, char::len_utf8);
        without_user(&word[..length]) + &word[length..]
    });
    words.collect()
}

fn without_user(word: &str) -> String {
    let (scheme, rest) = match word.find("://") {
        Some(at) => word.split_at(at + 3),
        None => ("", word),
    };
    // `user_id:a@b` names a client, and contains no password.
    let is_client = ["user_id:", "api_key:", "cert:"]
        .iter()
        .any(|kind| rest.starts_with(kind));
    match rest.rfind('@') {
        Some(at) if !scheme.is_empty() || rest[..at].contains(':') && !is_client => {
            format!("{scheme}***{}", &rest[at..])
        }
        _ => word.to_owned(),
    }
}

/// Shortens each quote of a message to [`MAX_QUOTE`] characters. Quotes stand between backticks.
fn shortened(message: String) -> String {
    if message.len() <= MAX_QUOTE {
        return message;
    }
    let mut short = String::new();
    for (at, part) in message.split('`').enumerate() {
        if at > 0 {
            short.push('`');
        }
        let is_quote = at % 2 == 1;
        let most = if is_quote { MAX_QUOTE } else { MAX_MESSAGE };
        match part.char_indices().nth(most) {
            Some((end, _)) => short.extend([&part[..end], "…"]),
            None => short.push_str(part),
        }
        if short.len() > MAX_MESSAGE {
            short.truncate(short.floor_char_boundary(MAX_MESSAGE));
            short.push('…');
            break;
        }
    }
    short
}

/// Returns the name that was probably meant by `word`: the most similar name. `None` if more than a third of the letters differ.
fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let near = names
        .map(|name| (distance(&word, &name.to_lowercase()), name))
        .min_by_key(|(distance, _)| *distance)?;
    (near.0 <= near.1.chars().count().div_ceil(3)).then_some(near.1)
}

/// Returns the name that differs from a word by one typing mistake. `None` if the word equals a name, or if no name is that similar.
pub(crate) fn slip<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut distances = names.into_iter().map(|name| (distance(word, name), name));
    let nearest = distances.by_ref().min_by_key(|(distance, _)| *distance)?;
    (nearest.0 == 1).then_some(nearest.1)
}

/// Returns the number of typing mistakes between two words: letters that are added, removed, replaced or swapped. Compares the first 64
/// letters only, because the time grows with the product of the lengths.
fn distance(a: &str, b: &str) -> usize {
    let start = |word: &str| word.chars().take(64).collect::<String>();
    strsim::osa_distance(&start(a), &start(b))
}

#[cfg(test)]
mod tests;
