//! Finds the lines of a file that an excerpt may show, because they cannot hold a secret.
//!
//! The functions read the text line by line, because a file that is not valid YAML has no parsed values. In case of doubt, a line is not
//! shown.

use super::distance;

/// Keys whose values may be secrets, each with a number. A word with at most this number of typing mistakes counts as the key.
const SECRETS: [(&str, usize); 23] = [
    ("secret", 2),
    ("webhook", 1),
    ("hash", 1),
    ("url", 1),
    ("jwks_url", 2),
    ("password", 2),
    ("passwd", 1),
    ("token", 1),
    ("api_token", 1),
    ("key", 0),
    ("keys", 0),
    ("auth", 0),
    ("authorization", 1),
    ("bearer", 0),
    ("jwt", 0),
    ("pwd", 0),
    // The value of `set` contains headers that a route sets.
    ("set", 0),
    // The value of `headers` contains headers for the collector of traces.
    ("headers", 0),
    ("tracing", 1),
    ("otlp", 1),
    // These keys contain edits of headers. Authors may write headers directly under these keys by mistake, without `set`.
    ("request_headers", 2),
    ("response_headers", 1),
    // The value of `request_has` contains headers that a request must have. `query` is not in this list, because logs show URLs anyway.
    ("request_has", 2),
];

/// Returns for each line whether it may be shown. If a line may contain a secret, the line and the indented block below it are hidden.
pub(super) fn shown(lines: &[&str]) -> Vec<bool> {
    // `secret` is the line that began the hidden block. If a quote or a bracket is open at the end of a line of the block, all further
    // lines are hidden.
    let (mut secret, mut is_endless) = (None::<&str>, false);
    let mut shown = Vec::with_capacity(lines.len());
    for &line in lines {
        if !is_endless && secret.is_some_and(|secret| is_behind(line, secret)) {
            secret = None;
        }
        let is_comment = line.trim_start().starts_with('#');
        let is_hidden = secret.is_some() || may_be_secret(line);
        if is_hidden && !is_comment {
            // Another key of secrets with a smaller indentation begins a new block, which is longer.
            if secret.is_none_or(|secret| indent(line) < indent(secret) && may_be_secret(line)) {
                secret = Some(line);
            }
            is_endless |= is_open(line);
        }
        shown.push(!is_hidden);
    }
    shown
}

/// Returns the lines that may be shown, like [`shown`]. With `has_plain_keys`, the values of the key `key` are no secrets.
pub(super) fn shown_of(lines: &[&str], has_plain_keys: bool) -> Vec<bool> {
    if !has_plain_keys {
        return shown(lines);
    }
    let lines = lines.iter().map(|line| line.replacen("key:", "k:", 1));
    let lines: Vec<_> = lines.collect();
    shown(&lines.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Whether a text contains a key of [`SECRETS`], perhaps mistyped, or an `@`, which may follow a password. Compares whole words, and parts
/// of words between `_`.
pub(super) fn may_be_secret(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut words = lower.split(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-'));
    text.contains('@')
        || words.any(|word| {
            // `token_bucket` contains `token`, but is frequent and harmless.
            let is_bucket = distance(word, "token_bucket") <= 2;
            is_key(word) || !is_bucket && word.split('_').any(is_key)
        })
}

fn is_key(word: &str) -> bool {
    let word = word.trim_matches('-');
    let length = word.chars().count();
    SECRETS.iter().any(|(secret, mistakes)| {
        // Comparing lengths first saves time in long files.
        length.abs_diff(secret.len()) <= *mistakes && distance(word, secret) <= *mistakes
    })
}

/// Whether a line ends the block that the line `secret` began. Such a line begins a key or a list element, and is not indented deeper.
fn is_behind(line: &str, secret: &str) -> bool {
    let text = line.trim_start_matches(' ');
    let element = text.strip_prefix("- ");
    // A list may have the same indentation as its key, so its elements do not end the key's block.
    let is_sibling = match element {
        Some(_) if indent(line) == indent(secret) => secret.trim_start().starts_with("- "),
        _ => true,
    };
    let text = element.unwrap_or(text);
    let is_key = text.split_once(':').is_some_and(|(key, value)| {
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        let key = key.trim_matches(['"', '\'']);
        key.starts_with(is_word)
            && key.chars().all(is_word)
            && (value.is_empty() || value.starts_with(' '))
    });
    indent(line) <= indent(secret)
        && is_sibling
        && (is_key || element.is_some() && text.starts_with('{'))
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Whether a quoted text, a list or a map continues on the next line.
fn is_open(line: &str) -> bool {
    let (mut quote, mut depth) = (None, 0);
    // `last` is the previous character, and `before` is the previous character that is not a blank.
    let (mut last, mut before) = (' ', ':');
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match (quote, char) {
            (Some('"'), '\\') => _ = chars.next(),
            (Some(mark), char) if char == mark => quote = None,
            (Some(_), _) => {}
            // A quote within a word does not begin a quoted text.
            (None, '"' | '\'') if ":,{[-?'\"".contains(before) => quote = Some(char),
            (None, '{' | '[') => depth += 1,
            (None, '}' | ']') => depth -= 1,
            (None, '#') if last == ' ' => break,
            // An anchor or a tag is skipped, because the value stands after it.
            (None, '&' | '!') if ":,{[-?".contains(before) => {
                _ = chars.by_ref().find(|c| *c == ' ');
                last = ' ';
                continue;
            }
            (None, _) => {}
        }
        last = char;
        if char != ' ' {
            before = char;
        }
    }
    quote.is_some() || depth > 0
}
