//! Mistakes that YAML's own errors hide: a key that is indented wrongly, and an address in brackets without quotation marks.
//!
//! Both mistakes are valid YAML with another meaning, so the YAML library reports an error at another place or with another reason.

use crate::yaml::report::{Place, Problem, Source};

/// The longest key that a message names, in characters.
const MAX_KEY: usize = 40;

/// A line that is neither empty nor a comment.
struct Line<'a> {
    number: usize,
    /// The number of characters before the line's key, including the dash of a list.
    indent: usize,
    /// The number of spaces before the dash. `None` if the line does not begin an entry of a list.
    dash: Option<usize>,
    /// The text of the line from the key to the end.
    text: &'a str,
}

impl<'a> Line<'a> {
    fn of(source: &Source<'a>, number: usize) -> Option<Self> {
        let line = source.line(number);
        let mut text = line.trim_start_matches(' ');
        let dash = text.starts_with("- ").then(|| line.len() - text.len());
        while let Some(rest) = text.strip_prefix("- ") {
            text = rest.trim_start_matches(' ');
        }
        let is_content = !text.trim().is_empty() && !text.starts_with('#');
        is_content.then(|| Self {
            number,
            indent: line.len() - text.len(),
            dash,
            text,
        })
    }

    /// Returns the line's key, and the value after the key.
    fn key(&self) -> Option<(&'a str, &'a str)> {
        let (key, value) = self.text.split_once(':')?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let is_key = !key.is_empty() && key.len() <= MAX_KEY && key.chars().all(is_word);
        let value = match value.trim_start() {
            comment if comment.starts_with('#') => "",
            value => value,
        };
        is_key.then(|| (key, value.trim_end()))
    }

    /// Returns the line's key, if no value follows in the line.
    fn empty_key(&self) -> Option<&'a str> {
        self.key()
            .and_then(|(key, value)| value.is_empty().then_some(key))
    }

    fn place(&self, length: usize) -> Place {
        Place {
            line: self.number,
            column: self.indent + 1,
            length,
        }
    }
}

/// Returns the lines below a line, except empty lines and comments.
fn below<'s, 'a>(
    source: &'s Source<'a>,
    number: usize,
) -> impl Iterator<Item = Line<'a>> + use<'s, 'a> {
    (number + 1..=source.lines.len()).filter_map(|number| Line::of(source, number))
}

/// Returns the last line above a line, except empty lines and comments.
fn line_above<'a>(source: &Source<'a>, line: usize) -> Option<Line<'a>> {
    (1..line).rev().find_map(|number| Line::of(source, number))
}

/// Returns the problem of a missing key of a block map, if the key stands below the map with a wrong indentation.
///
/// `place` is the first key of the map.
pub(super) fn missing_key(field: &str, place: Place, source: &Source<'_>) -> Option<Problem> {
    let first = Line::of(source, place.line).filter(|line| line.indent + 1 == place.column)?;
    let is_inside = |line: &Line<'_>| line.dash.unwrap_or(line.indent) >= first.indent;
    let mut outside = below(source, place.line).skip_while(is_inside);
    let next = outside.next()?;
    let is_field = |line: &Line<'_>| line.key().is_some_and(|(key, _)| key == field);
    if next.dash.is_some() {
        let note = format!(
            "the `-` before `{field}` on line {} begins a new entry; without it the key belongs to this one",
            next.number
        );
        let problem = Problem::new(place, format!("the key `{field}` is missing here"));
        return is_field(&next).then(|| problem.note(note));
    }
    let indent = next.indent;
    let line = std::iter::once(next)
        .chain(outside)
        .take_while(|line| line.indent >= indent && line.dash.is_none())
        .find(|line| line.indent == indent && is_field(line))?;
    let (here, there) = (spaces(indent), spaces(first.indent));
    let message = format!("`{field}` is indented by {here}, but the keys it belongs to by {there}");
    let mut note = format!("indent it by {there}");
    if let Some((key, _)) = first.key() {
        note.push_str(&format!(", as `{key}` on line {}", first.number));
    }
    Some(Problem::new(line.place(field.len()), message).note(note))
}

/// Returns the problem of a key without a value. If the next line is not indented deeper, adds a note on its indentation.
pub(super) fn empty_value(place: Place, source: &Source<'_>) -> Option<Problem> {
    let own = Line::of(source, place.line)?;
    let key = own.empty_key()?;
    let problem = Problem::new(own.place(key.len()), format!("`{key}` has no value"));
    if let Some(next) = below(source, place.line).next()
        && next.indent <= own.indent
        && next.dash.is_none()
        && let Some((other, _)) = next.key()
    {
        return Some(problem.note(format!(
            "if `{other}` on line {} belongs to `{key}`, indent it by {}",
            next.number,
            spaces(own.indent + 2)
        )));
    }
    Some(problem)
}

/// Returns a note on the indentation of an unknown key, if the key in the line above has no value.
pub(super) fn empty_above(key: &str, place: Place, source: &Source<'_>) -> Option<String> {
    let above = line_above(source, place.line)?;
    let parent = above.empty_key()?;
    let is_beside = above.indent + 1 == place.column;
    is_beside.then(|| {
        format!(
            "`{parent}` on line {} has no value: if `{key}` belongs to it, indent `{key}` by {}",
            above.number,
            spaces(above.indent + 2)
        )
    })
}

/// Returns the problem of a line with a larger indentation than the key above, if that key has a value.
pub(super) fn too_deep(place: Place, source: &Source<'_>) -> Option<Problem> {
    let own = Line::of(source, place.line)?;
    let (key, _) = own.key()?;
    let above = line_above(source, place.line)?;
    let (other, value) = above.key()?;
    if own.indent <= above.indent || value.is_empty() {
        return None;
    }
    let (here, there) = (spaces(own.indent), spaces(above.indent));
    let message = format!(
        "`{key}` is indented by {here}, but `{other}` on line {} by {there}",
        above.number
    );
    let problem = Problem::new(own.place(key.len()), message);
    Some(problem.note(format!(
        "keys of one map have the same indentation: indent `{key}` by {there}"
    )))
}

/// Returns the problem of an address such as `[::1]:8080` without quotation marks, which YAML takes for a list.
pub(super) fn bare_address(place: Place, source: &Source<'_>) -> Option<Problem> {
    let line = source.line(place.line);
    let line = line.split_once(" #").map_or(line, |(line, _)| line);
    let (start, length) = line.match_indices('[').find_map(|(start, _)| {
        let before = line[..start].chars().next_back();
        let is_bare = before.is_none_or(|c| matches!(c, ' ' | '[' | ','));
        let length = address_length(&line[start..])?;
        is_bare.then_some((start, length))
    })?;
    let place = Place {
        line: place.line,
        column: line[..start].chars().count() + 1,
        length,
    };
    let address = &line[start..start + length];
    let problem = Problem::new(place, "an address in brackets needs quotation marks");
    Some(problem.note(format!("write \"{address}\"")))
}

/// Returns the length of the IPv6 address in brackets with a port at the beginning of a text, if there is such an address.
fn address_length(text: &str) -> Option<usize> {
    let text = text.strip_prefix('[')?;
    // Each search ends before the next bracket. Otherwise a line with many brackets would take too long.
    let is_part = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.');
    let (address, after) = text.split_at(text.len() - text.trim_start_matches(is_part).len());
    let after = after.strip_prefix("]:")?;
    let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let is_address = address.parse::<std::net::Ipv6Addr>().is_ok();
    (is_address && (1..=5).contains(&digits)).then_some(address.len() + 3 + digits)
}

fn spaces(count: usize) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} space{plural}")
}
