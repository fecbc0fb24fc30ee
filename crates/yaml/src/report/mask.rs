//! What of a configuration must not be shown: passwords in URLs, and the values of keys that hold secrets. This also applies when
//! such a key is misspelt or its value stands on the lines below.
//!
//! It works on the text alone, because a file whose form is wrong has no values yet. In doubt it
//! hides too much.

use super::distance;

/// Keys whose values are hidden, and how many typing mistakes still count as that key.
const SECRETS: [(&str, usize); 12] = [
    ("secret", 2),
    ("hash", 1),
    ("url", 1),
    ("jwks_url", 2),
    ("password", 2),
    ("passwd", 1),
    ("token", 1),
    ("api_token", 1),
    ("key", 0),
    ("auth", 0),
    // Headers that a route sets.
    ("set", 0),
    // Headers that a request must have. What it must have in its query is no secret: a URL is shown in logs.
    ("request_has", 2),
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

/// What each line continues: a secret that began above, or nothing.
pub(super) fn carried(lines: &[&str]) -> Vec<Below> {
    let mut carried = vec![Below::Nothing];
    for line in lines {
        let last = carried.last().copied().unwrap_or_default();
        carried.push(secrets(line, last).1);
    }
    carried
}

/// Whether the values of a key are hidden.
pub(super) fn hides(key: &str) -> bool {
    SECRETS.iter().any(|(secret, _)| *secret == key)
}

/// Masks a line, and moves the place from `start` on with it.
///
/// `rest` hides what comes after the place as well.
pub(super) fn line(text: &str, below: Below, start: usize, length: usize, rest: bool) -> Masked {
    let (mut hidden, _) = secrets(text, below);
    let mut masked = Masked {
        line: Vec::new(),
        start: 0,
        end: 0,
    };
    let chars: Vec<char> = text.chars().collect();
    let length = length.clamp(1, chars.len().saturating_sub(start).max(1));
    if rest {
        let after = chars.iter().skip(start + length);
        let skipped = after.take_while(|c| matches!(c, ':' | ' ')).count();
        hidden.push((start + length + skipped, chars.len()));
    }
    let mut in_mask = false;
    for (index, char) in chars.iter().enumerate() {
        let hide = hidden
            .iter()
            .any(|(from, to)| (*from..*to).contains(&index));
        if index == start {
            // Inside of a mask there is no place: the carets go under all of it.
            let back = if hide && in_mask { MASK.len() } else { 0 };
            masked.start = masked.line.len() - back;
        }
        if hide && !in_mask {
            masked.line.extend(MASK.chars());
        } else if !hide {
            masked
                .line
                .push(if char.is_control() { ' ' } else { *char });
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Below {
    #[default]
    Nothing,
    /// The value of a secret, as far as lines are indented by more than this.
    Value(usize),
    /// The value of a secret, as far as this quotation mark.
    Quoted(char),
    /// The value of a secret, as far as something closes or ends it.
    InFlow,
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
            let quote = open_quote(&chars[indent..]);
            return (
                vec![(indent, chars.len())],
                quote.map_or(below, Below::Quoted),
            );
        }
        Below::Quoted(mark) => {
            let next = if line.contains(mark) {
                Below::Nothing
            } else {
                below
            };
            return (vec![(0, chars.len())], next);
        }
        Below::InFlow => {
            let is_end = line.contains([',', '}', ']']);
            let next = if is_end { Below::Nothing } else { below };
            return (vec![(0, chars.len())], next);
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
    while let Some(key) = key(&chars, from) {
        from = key.end;
        let in_flow = chars[..key.start].contains(&'{');
        if key.lists_keys(&chars) {
            next = Below::Keys(key.start);
            hidden.extend(bare_keys(&chars, from));
        } else if key.is_secret() {
            let end = value_end(&chars, from, in_flow);
            let start = (from..end).find(|at| chars[*at] != ' ').unwrap_or(end);
            let last = (start..end).rfind(|at| chars[*at] != ' ');
            hidden.push((start, last.map_or(end, |at| at + 1)));
            from = end;
            next = match open_quote(&chars[start..end]) {
                Some(mark) => Below::Quoted(mark),
                None if !in_flow => Below::Value(key.start),
                None if start == end => Below::InFlow,
                None if chars[start] == '{' && !chars[start..].contains(&'}') => Below::InFlow,
                None => next,
            };
        }
    }
    hidden.extend(users(line));
    (hidden, next)
}

/// A word where a key can stand.
struct Key {
    /// In lower case.
    name: String,
    /// Whether a colon follows; without one, a key is only suspected.
    is_sure: bool,
    start: usize,
    /// Where its value may begin.
    end: usize,
}

impl Key {
    fn is_secret(&self) -> bool {
        SECRETS.iter().any(|(secret, mistakes)| {
            let mistakes = if self.is_sure { *mistakes } else { 0 };
            // Long files have many keys; most differ in length.
            let is_near = self.name.len().abs_diff(secret.len()) <= 2 * mistakes;
            is_near && distance(&self.name, secret) <= mistakes
        })
    }
}

impl Key {
    /// Whether listed keys follow. `keys` is suspected without its colon, too; `tokens` is also what users call a limit.
    fn lists_keys(&self, line: &[char]) -> bool {
        let follows = line[self.end..].iter().find(|c| **c != ' ');
        let opens = || self.is_sure || matches!(follows, Some(':' | '=' | '['));
        self.name == "keys" || self.name == "tokens" && opens()
    }
}

/// The next key: what a colon and a blank follow, or a word where a map or an entry begins.
fn key(chars: &[char], from: usize) -> Option<Key> {
    let is_word = |at: &usize| chars[*at].is_alphanumeric() || matches!(chars[*at], '_' | '-');
    let is_quote = |at: usize| matches!(chars.get(at), Some('"' | '\''));
    let mut at = from;
    loop {
        let start = (at..chars.len()).find(is_word)?;
        at = (start..chars.len())
            .find(|at| !is_word(at))
            .unwrap_or(chars.len());
        let colon = at + usize::from(is_quote(at));
        let is_sure = chars.get(colon) == Some(&':');
        let is_plain = is_sure && chars.get(colon + 1).is_none_or(|c| c.is_whitespace());
        let quoted = start > 0 && is_quote(start - 1);
        let before = chars[..start - usize::from(quoted)].iter().rev();
        let before = before.copied().find(|c| !c.is_whitespace());
        let begins = matches!(
            before,
            None | Some('-' | '{' | '[' | ',' | '}' | ']' | '?' | '#')
        );
        if !(begins || is_plain) || chars[start] == '-' {
            continue;
        }
        return Some(Key {
            name: chars[start..at].iter().collect::<String>().to_lowercase(),
            is_sure,
            start,
            end: if is_sure { colon + 1 } else { at },
        });
    }
}

/// Where a value ends: in a flow map at what closes it, else with the line.
fn value_end(chars: &[char], from: usize, in_flow: bool) -> usize {
    let start = (from..chars.len()).find(|at| chars[*at] != ' ');
    let Some(start) = start.filter(|_| in_flow) else {
        return chars.len();
    };
    // A map may hold secrets under any key.
    if chars[start] == '{' {
        return chars.len();
    }
    let ends = |at: &usize| match chars[start] {
        quote @ ('"' | '\'') => *at > start && chars[at - 1] == quote && *at > start + 1,
        _ => matches!(chars[*at], ',' | '}' | ']'),
    };
    (start..chars.len()).find(ends).unwrap_or(chars.len())
}

/// The mark that a value begins with, if it does not end with it too.
fn open_quote(value: &[char]) -> Option<char> {
    let mark = *value.first().filter(|c| matches!(c, '"' | '\''))?;
    (!value[1..].contains(&mark)).then_some(mark)
}

/// The elements of `keys: [...]` if they are not maps.
fn bare_keys(chars: &[char], from: usize) -> Option<(usize, usize)> {
    let open = (from..chars.len()).find(|at| chars[*at] != ' ')?;
    let start = open + usize::from(chars[open] == '[');
    let first = (start..chars.len()).find(|at| chars[*at] != ' ')?;
    let last = chars.iter().rposition(|c| !matches!(c, ' ' | ']' | '}'))?;
    (!matches!(chars[first], '{' | ']' | '#')).then_some((first, last + 1))
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
