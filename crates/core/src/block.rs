//! `block`: refuses a key for a time after it exceeded its limit, even if units become free before this time is over.
//!
//! A refusal by the limit itself starts a block. A refusal by another limit of the same request does not. During a block every request is
//! refused. If `extend` is set, each refused request starts the block anew. `lua/block.lua` computes the same results.

use crate::{Micros, Verdict};

/// The block of a limit: the time for which a key is refused after it exceeded the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The length in us, from 1 to [`crate::MAX_WINDOW`].
    pub span: Micros,
    /// Whether each request that a block refuses starts the block anew.
    pub extend: bool,
}

impl Block {
    /// Applies a block that ends at `until` (0: no block) to the verdict.
    ///
    /// A block that would last more than `span` from `now` is cut to `span`. A block lasts too long if the clock stepped back, or if a
    /// reload made `span` shorter.
    pub(crate) fn check(&self, until: &mut Micros, now: Micros, verdict: &mut Verdict) {
        *until = (*until).min(now + self.span);
        let left = until.saturating_sub(now);
        if left > 0 {
            verdict.allowed = false;
            verdict.settling = false;
            verdict.delay = 0;
            self.tell(left, verdict);
        }
    }

    /// Starts a block after a check that refused, or starts a running block anew if `extend` is set.
    pub(crate) fn start(&self, until: &mut Micros, now: Micros, verdict: &mut Verdict) {
        if *until <= now || self.extend {
            *until = now + self.span;
            self.tell(self.span, verdict);
        }
    }

    /// Sets the numbers of a verdict while the key is blocked: `remaining` is 0, and `reset` and `retry_after` are at least `left` us.
    fn tell(&self, left: Micros, verdict: &mut Verdict) {
        verdict.remaining = 0;
        verdict.reset = verdict.reset.max(left);
        verdict.retry_after = verdict.retry_after.max(left);
    }
}
