//! `block`: refuses a key for a while once its limit was exceeded, even if its units are free again by then.
//!
//! A refusal by the limit itself starts a block; a refusal by another limit of the same request does not. During a block every
//! request is refused, and prolongs the block if `extend` is set. `lua/block.lua` computes the same.

use crate::{Micros, Verdict};

/// The block of a limit: the time for which a key is refused once its limit was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The length in us, from 1 to [`crate::MAX_WINDOW`].
    pub span: Micros,
    /// Whether requests that are refused meanwhile start the block anew.
    pub extend: bool,
}

impl Block {
    /// Applies a block that ends at `until` (0: no block) to the verdict.
    ///
    /// A block longer than its span is cut: the clock stepped back, or the span has become shorter.
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

    /// Starts a block, or prolongs it, after a check that refused.
    pub(crate) fn start(&self, until: &mut Micros, now: Micros, verdict: &mut Verdict) {
        if *until <= now || self.extend {
            *until = now + self.span;
            self.tell(self.span, verdict);
        }
    }

    /// Sets the verdict's numbers: no units are left for `left` us.
    fn tell(&self, left: Micros, verdict: &mut Verdict) {
        verdict.remaining = 0;
        verdict.reset = verdict.reset.max(left);
        verdict.retry_after = verdict.retry_after.max(left);
    }
}
