//! Detects another process with this gateway's ID, when both were resumed from one snapshot of a machine or a process.

use tidegate_core::Micros;

/// The number of consecutive heartbeats for which Redis must report a previous heartbeat that this process did not send. A single such
/// heartbeat may come from this process and have arrived late.
const FOREIGN: u8 = 2;

/// The number of consecutive heartbeats for which Redis reported a previous heartbeat that this process did not send.
#[derive(Debug, Default)]
pub(super) struct Twin {
    foreign: u8,
}

impl Twin {
    /// Returns whether another process uses this gateway's ID. `last` is the time in the answer to this process's last heartbeat, or `None`
    /// without an answer. `before` is the time at which Redis received the previous heartbeat with this ID.
    pub(super) const fn is_seen(&mut self, last: Option<Micros>, before: Micros) -> bool {
        match last {
            Some(last) if before > last => self.foreign += 1,
            Some(_) => self.foreign = 0,
            // Without an answer, the sender of the previous heartbeat is unknown.
            None => {}
        }
        let is_seen = self.foreign >= FOREIGN;
        if is_seen {
            self.foreign = 0;
        }
        is_seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_heartbeats_of_others_make_a_twin() {
        let mut twin = Twin::default();
        // The first heartbeat, a usual heartbeat, a heartbeat after a lost answer, and heartbeats to a Redis that lost data.
        for (last, before) in [
            (None, 0),
            (Some(5), 5),
            (None, 9),
            (Some(9), 0),
            (Some(9), 7),
        ] {
            assert!(!twin.is_seen(last, before));
        }
        // A single heartbeat that arrived late.
        assert!(!twin.is_seen(Some(9), 10));
        assert!(!twin.is_seen(Some(11), 11));
        assert!(!twin.is_seen(Some(11), 12));
        assert!(twin.is_seen(Some(13), 14));
        assert!(!twin.is_seen(Some(15), 16));
    }
}
