//! Lines by a template in the manner of nginx's `log_format`.

use super::cursor::Cursor;
use crate::error::{FormatError, LineError};
use crate::meaning::Meaning;
use crate::names::{Names, Vocabulary};
use crate::record::{MAX_HEADERS, Record, Span, Values};

/// The most variables of a template.
const MAX_VARIABLES: usize = 64;

/// The most tries to read a line. Each further try ends a variable at a later place.
const MAX_TRIES: u32 = 64;

/// A template: text, then each variable with the text after it.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    before: Vec<u8>,
    variables: Vec<(Meaning, Vec<u8>)>,
}

/// Reads a template: `$name` and `${name}` are variables, `$$` is a `$`. Single quotes around the whole text, as in `log_format`, are left
/// out.
pub(crate) fn compile(text: &str) -> Result<(Template, Names), FormatError> {
    let wrong = |what: String| Err(FormatError(format!("the template {what}")));
    let mut names = Names::new(Vocabulary::Template);
    let mut before = Vec::new();
    let mut variables: Vec<(Meaning, Vec<u8>)> = Vec::new();
    let mut rest = unquoted(text);
    while let Some(dollar) = rest.find('$') {
        let (plain, behind) = (&rest[..dollar], &rest[dollar + 1..]);
        let is_first = variables.is_empty();
        let last = variables.last_mut().map_or(&mut before, |it| &mut it.1);
        last.extend_from_slice(plain.as_bytes());
        if let Some(behind) = behind.strip_prefix('$') {
            last.push(b'$');
            rest = behind;
            continue;
        }
        let is_divided = is_first || !last.is_empty();
        let (name, behind) = match behind.strip_prefix('{') {
            Some(inner) => match inner.split_once('}') {
                Some(parts) => parts,
                None => return wrong("has a `${` without `}`".to_owned()),
            },
            None => {
                let end = behind.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
                behind.split_at(end.unwrap_or(behind.len()))
            }
        };
        if name.is_empty() {
            return wrong("has a `$` without a name; `$$` is a `$`".to_owned());
        }
        if variables.len() == MAX_VARIABLES {
            return wrong(format!("has more than {MAX_VARIABLES} variables"));
        }
        let meaning = names.meaning(name.as_bytes());
        if names.is_full() {
            return wrong(format!(
                "has more than {MAX_HEADERS} request headers: write others than those that limits need as `$_`"
            ));
        }
        // A path begins with a slash, so it needs no text before it.
        if !is_divided && !matches!(meaning, Meaning::Target | Meaning::Uri) {
            return wrong(format!(
                "has no text before `${name}`: where that begins cannot be told"
            ));
        }
        names.list(name.as_bytes(), meaning);
        variables.push((meaning, Vec::new()));
        rest = behind;
    }
    let last = variables.last_mut().map_or(&mut before, |it| &mut it.1);
    last.extend_from_slice(rest.as_bytes());
    if !names.has_time() {
        return wrong(
            "has no time: add `$time_local`, `$time_iso8601`, `$msec` or `$time`".to_owned(),
        );
    }
    Ok((Template { before, variables }, names))
}

fn unquoted(text: &str) -> &str {
    let inner = text.strip_prefix('\'').and_then(|it| it.strip_suffix('\''));
    inner.unwrap_or(text)
}

impl Template {
    pub(crate) fn read(&self, line: &[u8], values: &mut Values) -> Result<(), LineError> {
        let mut cursor = Cursor::new(line);
        cursor.expect(
            &self.before,
            "expected the text that the template begins with",
        )?;
        let (mut tries, mut spans) = (MAX_TRIES, [Span::default(); MAX_VARIABLES]);
        self.variable(0, cursor, values, (&mut tries, &mut spans))?;
        if tries < MAX_TRIES {
            // Drops the values of failed tries.
            values.record = Record::default();
            for ((meaning, _), span) in self.variables.iter().zip(spans) {
                cursor.take(values, *meaning, span)?;
            }
        }
        Ok(())
    }

    /// Reads a variable, and the variables after it. A value may contain the text that follows the variable. So each further try ends the
    /// value at a later place.
    fn variable(
        &self,
        number: usize,
        cursor: Cursor<'_>,
        values: &mut Values,
        (tries, spans): (&mut u32, &mut [Span; MAX_VARIABLES]),
    ) -> Result<(), LineError> {
        let Some((meaning, text)) = self.variables.get(number) else {
            return Ok(());
        };
        let (line, start) = (cursor.line, cursor.at);
        let is_last = number + 1 == self.variables.len();
        let mut from = start;
        let mut first = None;
        loop {
            let end = if is_last {
                // The last variable gets the rest of the line.
                line.len()
                    .checked_sub(text.len())
                    .filter(|end| *end >= from && line[*end..] == **text)
            } else if text.is_empty() {
                self.before_path(number + 1, line, from)
            } else {
                memchr::memmem::find(&line[from..], text).map(|length| from + length)
            };
            let Some(end) = end else {
                let what = if is_last {
                    "expected the text that the template ends with"
                } else {
                    "expected the text that the template has behind this value"
                };
                return Err(first.unwrap_or_else(|| cursor.error(what)));
            };
            let escaped = line[start..end].contains(&b'\\');
            spans[number] = Span::new(start, end, escaped);
            let taken = cursor.take(values, *meaning, spans[number]);
            let behind = Cursor {
                line,
                at: end + text.len(),
            };
            let read = taken.and_then(|()| {
                self.variable(number + 1, behind, values, (&mut *tries, &mut *spans))
            });
            let Err(error) = read else {
                return Ok(());
            };
            let first = *first.get_or_insert(error);
            *tries = tries.saturating_sub(1);
            if *tries == 0 || is_last {
                return Err(first);
            }
            from = end + 1;
        }
    }

    /// Finds the start of a path without text before it: at a slash, or where its value is empty or `-`.
    fn before_path(&self, path: usize, line: &[u8], from: usize) -> Option<usize> {
        let rest = &line[from..];
        let behind = self.variables.get(path).map_or(&[][..], |it| &it.1);
        let end = match behind {
            [] => rest.len(),
            behind => memchr::memmem::find(rest, behind)?,
        };
        let value = &rest[..end];
        let none = value.len() - usize::from(value.ends_with(b"-"));
        Some(from + memchr::memchr(b'/', value).unwrap_or(none))
    }
}
