//! `block`: once a limit is exceeded, its key is refused for a while, whatever else is free by then.
//!
//! A refusal by the limit itself starts it; a refusal by another limit of the same request does not. While it lasts every
//! request is refused, and prolongs it where that is wanted. The other writing of this file is `lua/block.lua`.

use crate::{Micros, Verdict};

/// For how long a key is refused once its limit was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// How long, in us, from 1 to [`crate::MAX_WINDOW`].
    pub span: Micros,
    /// Whether requests that are refused meanwhile start it anew.
    pub extend: bool,
}

impl Block {
    /// Brings a limit's verdict in line with a block that lasts until `until` (0: there is none).
    ///
    /// One that lasts for longer than its span was started before the clock stepped back, or by a longer span; it is cut.
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

    /// Nothing is left for that long.
    fn tell(&self, left: Micros, verdict: &mut Verdict) {
        verdict.remaining = 0;
        verdict.reset = verdict.reset.max(left);
        verdict.retry_after = verdict.retry_after.max(left);
    }
}
