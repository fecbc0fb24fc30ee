//! The places that connections take: how many there are at once, and when all are back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// How many places are taken.
#[derive(Debug, Default)]
pub(super) struct Places {
    taken: AtomicUsize,
    all_back: Notify,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<Places>);

impl Places {
    /// A place, if fewer than `most` are taken.
    pub(super) fn take(self: &Arc<Self>, most: usize) -> Option<Place> {
        let more = |taken: usize| (taken < most).then_some(taken + 1);
        let taken = self
            .taken
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        taken.is_ok().then(|| Place(self.clone()))
    }

    /// How many are taken now.
    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }

    /// Ready when none is taken.
    pub(super) async fn all_back(&self) {
        loop {
            let mut told = std::pin::pin!(self.all_back.notified());
            // Before the look, so that the last one is not missed.
            told.as_mut().enable();
            if self.taken() == 0 {
                return;
            }
            told.await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.0.taken.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.all_back.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn there_are_as_many_as_are_allowed_at_the_time() {
        let places = Arc::new(Places::default());
        places.all_back().await;
        let first = places.take(2).unwrap();
        let second = places.take(2).unwrap();
        assert!(places.take(2).is_none());
        let third = places.take(3).unwrap();
        drop((first, second));
        // One is out, which is all that there are by now.
        assert!(places.take(1).is_none());
        assert_eq!(places.taken(), 1);
        let (all, ()) = tokio::join!(places.all_back(), async { drop(third) });
        assert_eq!(((), 0), (all, places.taken()));
    }
}
