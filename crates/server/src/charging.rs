//! An HTTP/2 connection. It charges the peer for heads that the HTTP/2 library refuses.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::activity::Activity;

/// A future that charges for a number of heads. It returns true if the connection is to end.
pub(crate) type Charge = Pin<Box<dyn Future<Output = bool> + Send>>;

pin_project! {
    /// A connection of HTTP/2. It ends when the peer's refused heads have used up a limit.
    pub(crate) struct Charging<C, F> {
        #[pin]
        pub(crate) connection: C,
        pub(crate) activity: Arc<Activity>,
        // Charges for the heads that `connection` refuses.
        pub(crate) charge: F,
        pub(crate) charging: Option<Charge>,
    }
}

impl<C, F> Charging<C, F> {
    /// Returns the connection for its shutdown. After this call, refused heads are not charged for.
    pub(crate) fn leave(self: Pin<&mut Self>) -> Pin<&mut C> {
        let this = self.project();
        this.activity.heads.leaves.set();
        this.connection
    }
}

impl<C, F> Future for Charging<C, F>
where
    C: Future<Output = hyper::Result<()>>,
    F: Fn(usize) -> Charge,
{
    type Output = hyper::Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        this.activity.heads.poll();
        if let Poll::Ready(ended) = this.connection.poll(context) {
            return Poll::Ready(ended);
        }
        loop {
            if let Some(charging) = this.charging {
                match charging.as_mut().poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(true) => return Poll::Ready(Ok(())),
                    Poll::Ready(false) => *this.charging = None,
                }
            }
            // While a write waits, hyper may not have processed all heads that were read. So the number of refused heads is not known yet.
            if this.activity.write_stalls.is_set() {
                return Poll::Pending;
            }
            match this.activity.heads.take_refused() {
                0 => return Poll::Pending,
                count => *this.charging = Some((this.charge)(count)),
            }
        }
    }
}
