//! Requests with several limits: the limits that a refusal names, and its retry-after.

use super::known::{known, refused};
use super::{Breach, Promise};

pub(super) const NAMED: Promise = Promise {
    name: "several",
    words: "A request that several limits refuse names each of them that is known to refuse, and its Retry-After is the longest \
            wait of them.",
    check: |history| {
        let mut broken = Vec::new();
        for request in refused(history) {
            for charge in known(history, request) {
                if !history.judges(charge.charge.limit) || charge.is_named() {
                    continue;
                }
                let Some(why) = charge.is_full() else {
                    continue;
                };
                broken.push(Breach {
                    promise: NAMED.name,
                    limit: charge.charge.limit,
                    key: Some(charge.charge.key),
                    span: request.asked,
                    what: format!(
                        "does not name this limit, with {why}; via {:?}",
                        request.via()
                    ),
                });
            }
        }
        broken
    },
};
