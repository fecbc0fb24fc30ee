//! A task that ends with its owner.

use tokio::task::JoinHandle;

/// A task. A drop aborts it.
#[derive(Debug)]
pub(crate) struct Task<T>(pub(crate) JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
