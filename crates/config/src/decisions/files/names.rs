//! Names of the limits of files. A name has the domain, and each key with its value, as in the statistics of envoyproxy/ratelimit:
//! `messaging.message_type_marketing.to_number`.

use aws_lc_rs::digest::{SHA256, digest};

use super::Level;
use crate::limits::Rules;
use crate::value::word::{LONGEST_NAME, is_of_names};

/// Returns a name for the limit at this path that no other limit has. If the path does not fit into a name, the name ends with a part of
/// the path's hash.
pub(super) fn limit_name(domain: &str, path: &[Level<'_>], rules: &Rules) -> String {
    let mut text = domain.to_owned();
    // Two different paths may have the same text, so the hash has the length of each part, too.
    let mut exact = format!("{}:{domain}", domain.len());
    for Level { key, value, .. } in path {
        text.push('.');
        text.push_str(key);
        exact.push_str(&format!("/{}:{key}", key.len()));
        if let Some(value) = value {
            text.push('_');
            text.push_str(value);
            exact.push_str(&format!("={}:{value}", value.len()));
        }
    }
    let fits = text.len() <= LONGEST_NAME && text.chars().all(is_of_names);
    if fits && !rules.contains_key(&text) {
        return text;
    }
    let hash = digest(&SHA256, exact.as_bytes());
    let hash: String = hash
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let names = (8..=hash.len()).step_by(8).map(|digits| {
        let start = text.chars().take(LONGEST_NAME - 1 - digits);
        let start: String = start
            .map(|c| if is_of_names(c) { c } else { '-' })
            .collect();
        format!("{start}-{}", &hash[..digits])
    });
    let mut free = names.filter(|name| !rules.contains_key(name));
    free.next().unwrap_or(hash)
}
