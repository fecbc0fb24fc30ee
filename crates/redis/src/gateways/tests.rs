//! Tests whether an answer continues the previous answer.

use super::*;

#[test]
fn an_answer_continues_the_one_before_if_nothing_was_left_out() {
    let beat = |now, before| Beat {
        now,
        count: 1,
        before,
    };
    assert!(beat(12_000_000, 10_000_000).continues(Some(10_000_000)));
    // Redis has no previous heartbeat, an older one, or a newer one. The last answer was lost. A heartbeat was left out.
    assert!(!beat(12_000_000, 0).continues(Some(10_000_000)));
    assert!(!beat(12_000_000, 8_000_000).continues(Some(10_000_000)));
    assert!(!beat(12_000_000, 11_000_000).continues(Some(10_000_000)));
    assert!(!beat(12_000_000, 10_000_000).continues(None));
    assert!(!beat(14_000_000, 10_000_000).continues(Some(10_000_000)));
}
