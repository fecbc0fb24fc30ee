//! `--map`: the meanings of the members of an object.

use crate::error::FormatError;
use crate::lines::json::Objects;
use crate::meaning::Meaning;
use crate::names::{Names, Vocabulary, mapped};
use crate::record::MAX_HEADERS;

/// The most objects of a line, including the line itself.
const MAX_OBJECTS: usize = 32;

/// Reads pairs such as `time=$.ts,path=$.request.path`.
pub(crate) fn compile(text: &str) -> Result<Objects, FormatError> {
    // The first entry is the line itself: it has the names of all headers.
    let mut objects = vec![Names::new(Vocabulary::Listed)];
    let wrong = |what: String| Err(FormatError(what));
    for pair in text
        .split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty())
    {
        let shown = pair.escape_debug();
        let Some((name, path)) = pair.split_once('=') else {
            return wrong(format!(
                "`{shown}` has no `=`: write such as path=$.request.path"
            ));
        };
        let (name, path) = (name.trim(), path.trim());
        let Some(meaning) = mapped(&mut objects[0], name) else {
            return wrong(format!(
                "there is no field `{}`; there are time, end, duration, peer, method, path, query, host, status, client, user, \
                 forwarded_for, header:NAME, and others",
                name.escape_debug()
            ));
        };
        if objects[0].is_full() {
            return wrong(format!(
                "`{shown}`: a map has {MAX_HEADERS} headers at most"
            ));
        }
        let members = path.strip_prefix("$.").map(|path| path.split('.'));
        let Some(members) = members.filter(|it| it.clone().all(|member| !member.is_empty())) else {
            return wrong(format!(
                "`{shown}`: a path in the object begins with `$.`, such as $.request.path"
            ));
        };
        let members: Vec<_> = members.collect();
        let Some((last, above)) = members.split_last() else {
            continue;
        };
        let mut at = 0;
        for member in above {
            at = match inner(&mut objects, at, member) {
                Some(at) => at,
                None => {
                    return wrong(format!(
                        "`{shown}`: there are too many objects, or a value that is one, too"
                    ));
                }
            };
        }
        if objects[at].listed(last.as_bytes()).is_some() {
            return wrong(format!("`{shown}`: this path is named twice"));
        }
        objects[at].list(last.as_bytes(), meaning);
    }
    if !objects.iter().any(Names::has_time) {
        return wrong("the map has no time: add time=$.NAME (when a request arrived) or end=$.NAME (when it ended)".to_owned());
    }
    Ok(objects)
}

/// Finds or adds the object that is this member of object `at`. Returns its number.
fn inner(objects: &mut Objects, at: usize, member: &str) -> Option<usize> {
    match objects[at].listed(member.as_bytes()) {
        Some(Meaning::Object(number)) => Some(number.into()),
        None if objects.len() < MAX_OBJECTS => {
            let number = objects.len();
            objects[at].list(member.as_bytes(), Meaning::Object(number as u8));
            objects.push(Names::new(Vocabulary::Listed));
            Some(number)
        }
        _ => None,
    }
}
