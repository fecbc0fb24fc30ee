//! Fingerprints of what only a restart changes: by them `tidegate check --running` sees that a reload would be refused.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};
use tidegate_config::{Plan, StorePlan};

/// A fingerprint of each key, by which another process of this version of the program sees whether the key differs. Of secrets it has
/// whether there is one, and of a URL neither user nor password nor parameters: whoever reads a fingerprint may try guesses.
pub(crate) fn fingerprints(plan: &Plan) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for (key, mut text) in plan.fixed.texts() {
        if key == "`store`"
            && let StorePlan::Redis(options) = &plan.store
        {
            // Writing to a String cannot fail.
            let _ = write!(text, " {} {}", scheme(&options.url), servers(&options.url));
        }
        // With port 0 the system has chosen the port, and no file can name it.
        if text.ends_with(":0") {
            continue;
        }
        all.insert(key.to_owned(), fingerprint(&text));
    }
    all
}

fn scheme(url: &str) -> &str {
    url.split("://").next().unwrap_or_default()
}

/// Hosts and path of a URL; nothing, if it is not beyond doubt what stands where.
fn servers(url: &str) -> &str {
    let (begin, rest) = match url.rsplit_once('@') {
        Some((before, rest)) => (before, rest),
        None => ("", url.split_once("://").map_or(url, |(_, rest)| rest)),
    };
    match begin.contains(['@', '?', '#']) {
        true => "",
        false => rest.split(['?', '#']).next().unwrap_or_default(),
    }
}

fn fingerprint(text: &str) -> String {
    let hash = digest(&SHA256, text.as_bytes());
    let bytes = hash.as_ref()[..8].iter();
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_has_no_secret() {
        for (url, shown) in [
            ("redis://one:6379/1", "one:6379/1"),
            ("redis://user:hunter2@one:6379/1", "one:6379/1"),
            ("redis://:hunter2@one,two?password=hunter2", "one,two"),
            ("rediss://one?password=hunter2", "one"),
            ("redis://one?password=hunter2@x", ""),
            ("redis://:hunter?2@one", ""),
            ("redis://:hunter2@x@one", ""),
            ("redis://:hunter#2@one", ""),
        ] {
            assert_eq!(servers(url), shown, "{url}");
        }
    }
}
