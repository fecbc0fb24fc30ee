//! What of a configuration must not be shown: passwords in URLs, and the values of keys that hold
//! secrets, also when such a key is misspelt or its value stands on the lines below.
//!
//! It works on the text alone, because a file whose form is wrong has no values yet. In doubt it
//! hides too much. This module must not know what the file means.

use super::distance;

/// Keys whose values are hidden, and how many typing mistakes still count as that key.
const SECRETS: [(&str, usize); 9] = [
    ("secret", 2),
    ("hash", 1),
    ("url", 1),
    ("password", 2),
    ("passwd", 1),
    ("token", 1),
    ("api_token", 1),
    ("key", 0),
    ("auth", 0),
];

/// What stands for what is hidden; its length says nothing.
const MASK: &str = "***";

/// A line that can be shown, and where in it a place has come to lie.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Masked {
    pub(super) line: Vec<char>,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Masks the line with an index, and moves the place from `start` on with it.
pub(super) fn line(lines: &[&str], at: usize, start: usize, length: usize) -> Masked {
    let mut below = Below::Nothing;
    for line in &lines[..at.min(lines.len())] {
        below = secrets(line, below).1;
    }
    let text = lines.get(at).copied().unwrap_or_default();
    let (hidden, _) = secrets(text, below);
    let mut masked = Masked {
        line: Vec::new(),
        start: 0,
        end: 0,
    };
    let chars: Vec<char> = text.chars().collect();
    let length = length.clamp(1, chars.len().saturating_sub(start).max(1));
    let mut in_mask = false;
    for (index, char) in chars.iter().enumerate() {
        let hide = hidden.iter().any(|(from, to)| (*from..*to).contains(&index));
        if index == start {
            // Inside of a mask there is no place: the carets go under all of it.
            let back = if hide && in_mask { MASK.len() } else { 0 };
            masked.start = masked.line.len() - back;
        }
        if hide && !in_mask {
            masked.line.extend(MASK.chars());
        } else if !hide {
            masked.line.push(if char.is_control() { ' ' } else { *char });
        }
        in_mask = hide;
        if index < start + length {
            masked.end = masked.line.len();
        }
    }
    if start >= chars.len() {
        masked.start = masked.line.len();
        masked.end = masked.start + 1;
    }
    masked
}

/// Masks the user and password of every URL in a text.
pub(super) fn credentials(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        masked.push_str(before);
        rest = after;
        if let Some(length) = user_length(after) {
            masked.push_str(MASK);
            rest = &after[length..];
        }
    }
    masked + rest
}

/// How many bytes before the last `@` of what follows `://` are a user and password.
fn user_length(after: &str) -> Option<usize> {
    let end = after.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`'));
    after[..end.unwrap_or(after.len())].rfind('@')
}

/// What the lines below a line may go on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Below {
    Nothing,
    /// The value of a secret, as far as lines are indented by more than this.
    Value(usize),
    /// Listed keys, of which one that is no map may be a key itself.
    Keys(usize),
}

/// What of a line is hidden, from and to which character, and what may follow below.
fn secrets(line: &str, below: Below) -> (Vec<(usize, usize)>, Below) {
    let chars: Vec<char> = line.chars().collect();
    let indent = chars.iter().take_while(|c| **c == ' ').count();
    let blank = indent == chars.len();
    let mut hidden = Vec::new();
    let mut next = Below::Nothing;
    match below {
        Below::Value(outer) if blank || indent > outer => {
            return (vec![(indent, chars.len())], below);
        }
        Below::Keys(outer) if blank || indent >= outer => {
            next = below;
            let bare = !line.contains(": ") && !line.trim_end().ends_with(':');
            if bare && line.trim_start().starts_with("- ") {
                hidden.push((indent + 2, chars.len()));
            }
        }
        _ => {}
    }
    let mut from = 0;
    while let Some(colon) = colon(&chars, from) {
        from = colon + 1;
        let (name, column) = key_before(&chars, colon);
        let in_flow = chars[..column].contains(&'{');
        if name == "keys" {
            next = Below::Keys(column);
            hidden.extend(bare_keys(&chars, from));
        } else if is_secret(&name) {
            let end = value_end(&chars, from, in_flow);
            let start = (from..end).find(|at| chars[*at] != ' ').unwrap_or(end);
            hidden.push((start, end));
            from = end;
            if !in_flow || start == end {
                next = Below::Value(if in_flow { 0 } else { column });
            }
        }
    }
    hidden.extend(users(line));
    (hidden, next)
}

/// The next `:` that ends a key: one before a blank or the end, or after a quoted key.
fn colon(chars: &[char], from: usize) -> Option<usize> {
    (from..chars.len()).find(|&at| {
        let blank = chars.get(at + 1).is_none_or(|c| c.is_whitespace());
        let quoted = at > 0 && matches!(chars[at - 1], '"' | '\'');
        chars[at] == ':' && (blank || quoted)
    })
}

/// The word before a colon, in lower case, and where it begins.
fn key_before(chars: &[char], colon: usize) -> (String, usize) {
    let is_edge = |c: &char| matches!(c, ' ' | '{' | ',' | '[' | '\t');
    let start = chars[..colon].iter().rposition(is_edge).map_or(0, |at| at + 1);
    let name: String = chars[start..colon].iter().collect();
    let name = name.trim_matches(['"', '\'']).to_lowercase();
    (name, start)
}

fn is_secret(name: &str) -> bool {
    SECRETS
        .iter()
        .any(|(secret, mistakes)| distance(name, secret) <= *mistakes)
}

/// Where a value ends: in a flow map at what closes it, else with the line.
fn value_end(chars: &[char], from: usize, in_flow: bool) -> usize {
    let start = (from..chars.len()).find(|at| chars[*at] != ' ');
    let Some(start) = start.filter(|_| in_flow) else {
        return chars.len();
    };
    let ends = |at: &usize| match chars[start] {
        quote @ ('"' | '\'') => *at > start && chars[at - 1] == quote && *at > start + 1,
        _ => matches!(chars[*at], ',' | '}' | ']'),
    };
    (start..chars.len()).find(ends).unwrap_or(chars.len())
}

/// The elements of `keys: [...]` if they are not maps.
fn bare_keys(chars: &[char], from: usize) -> Option<(usize, usize)> {
    let open = (from..chars.len()).find(|at| chars[*at] != ' ')?;
    let start = open + usize::from(chars[open] == '[');
    let first = (start..chars.len()).find(|at| chars[*at] != ' ')?;
    (!matches!(chars[first], '{' | ']' | '#')).then_some((first, chars.len()))
}

/// The users and passwords of a line's URLs.
fn users(line: &str) -> Vec<(usize, usize)> {
    let starts = line.match_indices("://").map(|(at, _)| at + 3);
    starts
        .filter_map(|at| {
            let chars = |end: usize| line[..end].chars().count();
            user_length(&line[at..]).map(|length| (chars(at), chars(at + length)))
        })
        .collect()
}
