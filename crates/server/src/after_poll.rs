//! Delays work until a connection has sent all bytes that are ready.
//!
//! hyper drops the body of an answer before it sends the last part of the body, and sends that part before its poll returns. If the drop of
//! the body spawned a task, this task could start at once on another thread. It could use a core that a client on the same machine needs.
//! So [`spawn_after_poll`] spawns the task after the poll.

use std::cell::RefCell;
use std::pin::Pin;

use tokio::runtime::Handle;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

thread_local! {
    /// The work that waits for the end of the poll on this thread; `None` outside of a poll.
    static WAITING: RefCell<Option<Vec<Work>>> = const { RefCell::new(None) };
}

/// Runs `work` in a new task. The task starts after the current poll of a connection, or at once outside of a poll. Without a tokio
/// runtime, the work is dropped.
pub fn spawn_after_poll(work: impl Future<Output = ()> + Send + 'static) {
    let now = WAITING.with_borrow_mut(|waiting| match waiting {
        Some(waiting) => {
            waiting.push(Box::pin(work));
            None
        }
        None => Some(work),
    });
    if let Some((work, runtime)) = now.zip(Handle::try_current().ok()) {
        runtime.spawn(work);
    }
}

/// Polls a connection. Then spawns the work that was added during the poll.
pub(crate) fn polled<T>(poll: impl FnOnce() -> T) -> T {
    let _poll = Poll {
        outer: WAITING.replace(Some(Vec::new())),
    };
    poll()
}

/// A poll that runs on this thread.
struct Poll {
    outer: Option<Vec<Work>>,
}

impl Drop for Poll {
    /// Spawns the waiting work, even after a panic.
    fn drop(&mut self) {
        let waiting = WAITING.replace(self.outer.take()).unwrap_or_default();
        for work in waiting {
            spawn_after_poll(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn work_begins_after_the_poll() {
        let (sender, mut done) = mpsc::unbounded_channel();
        let put_off = |name| {
            let sender = sender.clone();
            spawn_after_poll(async move { sender.send(name).unwrap() });
        };
        let waiting = || WAITING.with_borrow(|waiting| waiting.as_ref().map(Vec::len));
        put_off("outside");
        assert_eq!(waiting(), None);
        polled(|| {
            put_off("within");
            assert_eq!(waiting(), Some(1));
            polled(|| put_off("deep within"));
            assert_eq!(waiting(), Some(2));
        });
        let panics = catch_unwind(AssertUnwindSafe(|| {
            polled(|| {
                put_off("before a panic");
                panic!("on purpose");
            });
        }));
        assert!(panics.is_err());
        assert_eq!(waiting(), None);
        for name in ["outside", "within", "deep within", "before a panic"] {
            assert_eq!(done.recv().await, Some(name));
        }
    }
}
