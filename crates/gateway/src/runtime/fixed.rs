//! Fingerprints of the settings that only a restart changes. `tidegate check --running` compares the fingerprints of two configurations, to
//! predict whether a reload is refused.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};
use tidegate_config::{Settings, StoreSettings};

/// Returns a fingerprint of each setting that only a restart changes. Another process of the same version can compare the fingerprints. A
/// reader of a fingerprint can check guesses of the setting. So the fingerprint of a secret only shows whether a secret is set, and the
/// fingerprint of a URL leaves out user, password and parameters.
pub(crate) fn fingerprints(settings: &Settings) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for (key, mut text) in settings.fixed.texts() {
        if key == "`store`"
            && let StoreSettings::Redis(options) = &settings.store
        {
            // Writing to a String cannot fail.
            let _ = write!(text, " {} {}", scheme(&options.url), servers(&options.url));
        }
        // With port 0 the system chooses the port, and no configuration can name that port. So the setting gets no fingerprint.
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

/// Returns the hosts and the path of a URL, or an empty text if the URL is ambiguous.
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
